"""Every method learns: with its defaults, from the command line, it is about as accurate as cross-entropy after a short training."""

import contextlib
import io
import json
from pathlib import Path

import pytest

from rankmixup.cli.main import main
from rankmixup.methods import Method

SEEDS = range(3)
LONG_TAILED = {"remix": 10, "unimix": 10}
"""Methods made for long tails, and the imbalance to train them with."""
SHORT = ["--epochs", "12", "--milestones", "6", "9"]
"""A third of the recipe's 30 epochs, with the learning rate falling after the same parts of them."""


def accuracy(method: str, imbalance: int, runs: Path) -> float:
    """Mean test accuracy over the seeds; a run that another test has trained is not trained again."""
    total = 0.0
    for seed in SEEDS:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            command = ["train", method, *SHORT, "--data.imbalance", str(imbalance), "--seed", str(seed)]
            assert main([*command, "--runs", str(runs), "--json"]) == 0
        total += json.loads(out.getvalue())["metrics"]["test"]["accuracy"]
    return total / len(SEEDS)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("learning")


@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name in Method.registry if name != "ce"])
def test_accuracy_is_within_three_points_of_cross_entropy(method, runs):
    imbalance = LONG_TAILED.get(method, 1)
    assert accuracy(method, imbalance, runs) >= accuracy("ce", imbalance, runs) - 0.03
