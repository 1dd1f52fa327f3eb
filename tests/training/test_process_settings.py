import os
import signal
import sys
import warnings

import pytest
import torch

import rankmixup as rm
from tests.training.runs import At, crash, short

CUDNN = ("allow_tf32", "benchmark", "deterministic")


def process() -> dict:
    """What training could leave changed."""
    return {
        "precision": torch.get_float32_matmul_precision(),
        **{name: getattr(torch.backends.cudnn, name) for name in CUDNN},
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "threads": torch.get_num_threads(),
        "dtype": torch.get_default_dtype(),
        "grad": torch.is_grad_enabled(),
        "generator": torch.get_rng_state().tolist(),
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
        "environment": dict(os.environ),
        "warnings": list(warnings.filters),
    }


class Meddles(At):
    """Changes everything, as training on a GPU and libraries would."""

    def start(self, run, epochs_done, steps) -> None:
        torch.set_float32_matmul_precision("medium")
        for name in CUDNN:
            setattr(torch.backends.cudnn, name, not getattr(torch.backends.cudnn, name))
        torch.set_num_threads(torch.get_num_threads() + 1)


@pytest.mark.parametrize("action", [lambda: None, crash])
@pytest.mark.parametrize("watcher", [At, Meddles])
def test_the_process_is_left_as_it_was(action, watcher, tmp_path):
    rm.train(short(), runs=tmp_path / "first")  # what libraries do when they are imported is done once
    before = process()
    try:
        rm.train(short(), runs=tmp_path / "second", watcher=watcher(action, epoch=1, step=1))
    except KeyboardInterrupt:
        assert action is crash
    assert process() == before


def test_the_memory_of_the_process_can_be_left_alone(tmp_path, monkeypatch):
    called = []
    monkeypatch.setattr(sys.modules["rankmixup.training.train"], "keep_freed_memory", lambda: called.append(True))
    rm.train(short(), runs=tmp_path, keep_memory=False)
    assert called == []
    rm.train(short(seed=1), runs=tmp_path)
    assert called == [True]
