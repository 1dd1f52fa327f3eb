"""What devices can do, and what precision and parts of a batch change."""

import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric
from torch import nn

import rankmixup as rm
from rankmixup.cli.main import main
from rankmixup.data import Synthetic
from rankmixup.errors import InvalidInput
from rankmixup.hardware import Hardware
from rankmixup.methods import Method, objective
from rankmixup.training.fabric import build_fabric, set_up
from rankmixup.training.optimisation import update
from rankmixup.training.resume import load_training_state, training_state
from rankmixup.types import Batch

OPTIMISATION = rm.Optimisation(batch_size=12, clip=0.0)
CPU = Hardware(accelerator="cpu")


def batch(size: int = 12) -> Batch:
    rng = torch.Generator().manual_seed(0)
    return Batch(torch.randn(size, 1, 4, 4, generator=rng), torch.randint(3, (size,), generator=rng), torch.arange(size))


def network() -> nn.Module:
    return rm.build_model("mlp", num_classes=3, image_size=4, in_channels=1)


def ready(optimisation: rm.Optimisation, model: nn.Module, method: str = "ce"):
    fabric = build_fabric(CPU, optimisation)
    return fabric, *set_up(fabric, model, objective(method, 3, dataset_size=12), optimisation)


@pytest.mark.parametrize(
    ("hardware", "optimisation", "sentence"),
    [
        (CPU, {"precision": "16-mixed"}, "^precision '16-mixed' must run on a CUDA device, got 'cpu'$"),
        (CPU, {"precision": "tf32"}, "^precision 'tf32' must run on a CUDA device, got 'cpu'$"),
        (Hardware(accelerator="cpu", devices=2, strategy="fsdp"), {}, "^strategy 'fsdp' must run on CUDA devices, got 'cpu'$"),
        (
            Hardware(accelerator="cpu", devices=4),
            {"accumulate": 4},
            "^batch_size must leave a sample for each of 4 processes in each of 4 parts, got 12$",
        ),
        (
            Hardware(accelerator="cpu", nodes=2),
            {},
            "^several nodes must be started by torchrun or SLURM, .*, got no MASTER_ADDR, MASTER_PORT, NODE_RANK$",
        ),
    ],
)
def test_what_cannot_be_done_is_refused(hardware, optimisation, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        build_fabric(hardware, dataclasses.replace(OPTIMISATION, **optimisation))


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_devices_that_do_not_exist_are_refused(capsys):
    assert main(["train", "ce", "--accelerator", "cuda", "--precision", "16-mixed"]) == 2
    assert "accelerator 'cuda' with 1 devices must exist on this machine" in capsys.readouterr().err


@pytest.mark.parametrize("launcher", ["torchrun", "SLURM"])
def test_a_launcher_has_said_how_many_processes_there_are(launcher, monkeypatch):
    started = {
        "torchrun": {"TORCHELASTIC_RUN_ID": "1", "LOCAL_WORLD_SIZE": "4", "WORLD_SIZE": "8", "RANK": "0", "LOCAL_RANK": "0"},
        "SLURM": {"SLURM_NTASKS": "8", "SLURM_NNODES": "2", "SLURM_NTASKS_PER_NODE": "4", "SLURM_JOB_NAME": "a-job", "SLURM_PROCID": "0"}
        | {"SLURM_LOCALID": "0", "SLURM_NODEID": "0"},
    }
    for name, value in started[launcher].items():
        monkeypatch.setenv(name, value)
    fabric = build_fabric(CPU, OPTIMISATION)
    assert (fabric.world_size, fabric.strategy.num_nodes, len(fabric.strategy.parallel_devices)) == (8, 2, 4)
    with pytest.raises(InvalidInput, match=f"^devices must be what {launcher} has started, 4, or left out, got 2$"):
        build_fabric(Hardware(accelerator="cpu", devices=2), OPTIMISATION)


@pytest.mark.parametrize("parts", [2, 5])
def test_parts_of_a_batch_make_the_same_update_as_the_whole(parts):
    """Without BatchNorm and without mixing; 5 parts of 12 are of unequal size."""
    one, several = network().double(), network().double()
    several.load_state_dict(one.state_dict())
    terms = []
    for model, accumulate in ((one, 1), (several, parts)):
        optimisation = dataclasses.replace(OPTIMISATION, accumulate=accumulate, clip=1.0)
        fabric = Fabric(accelerator="cpu", devices=1, precision="64-true")
        step, optimiser = set_up(fabric, model, objective("label-smoothing", 3), optimisation)
        terms += [update(fabric, step, optimiser, batch(), 12, optimisation) for _ in range(3)]
    for ours, theirs in zip(one.parameters(), several.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
    assert terms[0]["loss"].item() == pytest.approx(terms[3]["loss"].item(), abs=1e-6)


def test_a_batch_smaller_than_its_parts_is_forwarded_sample_by_sample():
    fabric, step, optimiser = ready(dataclasses.replace(OPTIMISATION, accumulate=5), network())
    objective = step.module.objective
    update(fabric, step, optimiser, batch(3), 3, dataclasses.replace(OPTIMISATION, accumulate=5))
    assert objective.steps == 3


def test_accumulation_is_part_of_the_run():
    run = rm.Run("ce")
    assert run.id != dataclasses.replace(run, optimisation=dataclasses.replace(run.optimisation, accumulate=2)).id
    with pytest.raises(InvalidInput, match=r"^accumulate must be at least 1, got 0$"):
        rm.Optimisation(accumulate=0)


@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_what_is_saved_is_all_that_updates_depend_on(optimiser, tmp_path):
    optimisation = dataclasses.replace(OPTIMISATION, optimiser=optimiser, decay_vectors=False)
    model, again = network(), network()
    fabric, step, optimiser = ready(optimisation, model)
    for _ in range(3):
        update(fabric, step, optimiser, batch(), 12, optimisation)
    torch.save(training_state(fabric, model, optimiser), tmp_path / "state.pt")
    fabric, other_step, other_optimiser = ready(optimisation, again)
    load_training_state(fabric, again, other_optimiser, torch.load(tmp_path / "state.pt", weights_only=True))
    for _ in range(3):
        update(fabric, step, optimiser, batch(), 12, optimisation)
        update(fabric, other_step, other_optimiser, batch(), 12, optimisation)
    assert all(torch.equal(one, two) for one, two in zip(model.parameters(), again.parameters(), strict=True))


@pytest.mark.filterwarnings("ignore:margin of rankmixup-.* never acted")  # in one epoch
@pytest.mark.parametrize("method", list(Method.registry))
def test_every_method_trains_an_epoch_in_bfloat16(method, tmp_path):
    optimisation = rm.Optimisation(epochs=1, batch_size=16, precision="bf16-mixed", lr=0.01)
    data = Synthetic(train_size=48, val_size=20, test_size=20, imbalance=2.0)
    stored = rm.train(rm.Run(method, data=data, model="resnet8", optimisation=optimisation), runs=tmp_path, accelerator="cpu")
    with np.load(stored.predictions_path("test")) as arrays:
        assert arrays["logits"].dtype == np.float32
        assert np.isfinite(arrays["logits"]).all()


def test_precision_changes_what_is_computed_and_what_is_saved_stays_float32():
    saved = {}
    for precision in ("32", "bf16-mixed"):
        optimisation = dataclasses.replace(OPTIMISATION, precision=precision)
        with torch.random.fork_rng():
            torch.random.default_generator.manual_seed(0)
            model = network()
        fabric, step, optimiser = ready(optimisation, model)
        update(fabric, step, optimiser, batch(), 12, optimisation)
        saved[precision] = training_state(fabric, model, optimiser)["model"]
    assert all(value.dtype == torch.float32 for value in saved["bf16-mixed"].values())
    differences = [(saved["32"][name] - saved["bf16-mixed"][name]).abs().max() for name in saved["32"]]
    assert 0 < max(differences) < 0.01


@pytest.mark.slow
def test_a_compiled_network_trains_as_it_would_have(tmp_path):
    """In processes of their own, as users have it: the compiler need not see through the type checks of these tests."""
    small = [
        "--data.train-size",
        "100",
        "--model",
        "resnet8",
        "--epochs",
        "2",
        "--batch-size",
        "32",
        "--lr",
        "0.01",
        "--accelerator",
        "cpu",
    ]
    logits = []
    for flags in ([], ["--compile"]):
        runs = tmp_path / str(len(flags))
        command = [sys.executable, "-m", "rankmixup", "train", "rankmixup-mndcg", *small, *flags, "--runs", str(runs), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        assert done.returncode == 0, done.stderr
        with np.load(runs / json.loads(done.stdout)["id"] / "predictions" / "test.npz") as arrays:
            logits.append(arrays["logits"])
    np.testing.assert_allclose(*logits, atol=1e-2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the compiler
def test_the_command_compiles_a_network_of_timm(tmp_path, monkeypatch, capsys):
    """With a backend that only traces, which takes seconds; predictions are those of the network as it is."""
    pytest.importorskip("timm")
    compile_in_place, compiled = nn.Module.compile, []

    def traced(module: nn.Module) -> None:
        compiled.append(module)
        compile_in_place(module, backend="eager")

    monkeypatch.setattr(nn.Module, "compile", traced)
    small = ["--data.train-size", "40", "--epochs", "1", "--batch-size", "20", "--lr", "0.01", "--accelerator", "cpu"]
    logits = []
    for flags in ([], ["--compile"]):
        runs = tmp_path / str(len(flags))
        assert main(["train", "rankmixup-mndcg", "--model", "timm/test_resnet", *small, *flags, "--runs", str(runs), "--json"]) == 0
        with np.load(runs / json.loads(capsys.readouterr().out)["id"] / "predictions" / "test.npz") as arrays:
            logits.append(arrays["logits"])
    assert len(compiled) == 1
    np.testing.assert_allclose(*logits, atol=1e-3)
