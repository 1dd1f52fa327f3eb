"""Trainer in two processes: one model, two random streams, and a checkpoint of both."""

import os
from typing import Any

import pytest
import torch

from rankmixup.mixers import ManifoldMixup
from rankmixup.testing.contracts import two_processes

pytest.importorskip("transformers", reason="transformers is not installed")
pytestmark = [pytest.mark.dist, pytest.mark.filterwarnings("ignore")]


def trained(rank: int, folder: str, method: str, fields: dict[str, Any], steps: int, resume: str | None) -> dict[str, Any]:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}
    from tests.integrations.test_transformers import trainer

    every = {"save_strategy": "steps", "save_steps": 2, "eval_strategy": "steps", "eval_steps": 2, "ddp_backend": "gloo"}
    made = trainer(folder, method=method, fields=fields, max_steps=steps, per_device_train_batch_size=4, **every)
    assert made.args.world_size == 2
    made.train(resume_from_checkpoint=resume)
    assert isinstance(made.model_wrapped, torch.nn.parallel.DistributedDataParallel)
    metrics = {name: value for name, value in made.evaluate().items() if name in ("eval_nll", "eval_ece", "eval_accuracy")}
    weights = {name: value.detach().numpy() for name, value in made.model.named_parameters()}
    return {"weights": weights, "stream": made.objective._ctx.rng.get_state().numpy(), "metrics": metrics}


def same(one: dict[str, Any], other: dict[str, Any], **tolerance: float) -> None:
    for name, value in one["weights"].items():
        torch.testing.assert_close(torch.tensor(value), torch.tensor(other["weights"][name]), msg=name, **tolerance)


@pytest.mark.parametrize("forward", ["shared", "separate"])
def test_processes_train_one_model_with_streams_of_their_own_and_resume(forward, tmp_path):
    options = ("rankmixup-mndcg", {"mixer": ManifoldMixup(layer="embeddings", forward=forward)}, 4)
    first, second = two_processes(trained, str(tmp_path / "whole"), *options, None)
    same(first, second, rtol=0, atol=0)
    assert first["metrics"] == second["metrics"]
    assert (first["stream"] != second["stream"]).any()
    saved = sorted(path.name for path in (tmp_path / "whole" / "checkpoint-2").glob("rankmixup_*"))
    assert saved == ["rankmixup_objective_0.safetensors", "rankmixup_objective_1.safetensors"]
    resumed = two_processes(trained, str(tmp_path / "again"), *options, str(tmp_path / "whole" / "checkpoint-2"))
    for one, other in zip((first, second), resumed, strict=True):
        same(one, other, rtol=0, atol=0)
        assert (one["stream"] == other["stream"]).all()


def test_two_processes_take_the_steps_of_one_with_the_whole_batch(tmp_path):
    from tests.integrations.test_transformers import trainer

    first, _ = two_processes(trained, str(tmp_path / "two"), "focal", {}, 4, None)
    alone = trainer(tmp_path / "one", method="focal", max_steps=4)
    alone.train()
    same(first, {"weights": {name: value.detach() for name, value in alone.model.named_parameters()}}, rtol=0, atol=1e-6)
    assert first["metrics"]["eval_nll"] == pytest.approx(alone.evaluate()["eval_nll"], abs=1e-6)
