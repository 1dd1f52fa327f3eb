"""Runs of a second for the tests of what may interrupt one."""

import json

import numpy as np
from torch import nn

import rankmixup as rm
from rankmixup.data import Digits
from rankmixup.runs import StoredRun
from rankmixup.training import Watcher

EPOCHS, STEPS = 3, 4


def short(method="ce", **changes) -> rm.Run:
    optimisation = rm.Optimisation(epochs=EPOCHS, batch_size=16, milestones=(2,))
    return rm.Run(method, data=Digits(train_size=50), model="mlp", optimisation=optimisation, **changes)


def with_dropout(name: str, *, num_classes: int, image_size: int, in_channels: int) -> nn.Module:
    """Draws from torch's global generator in every step."""
    return nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(in_channels * image_size**2, num_classes))


class At(Watcher):
    """Calls `action` in one step, or after one epoch if no step is given; collects warnings."""

    def __init__(self, action=lambda: None, *, epoch: int = 0, step: int | None = None):
        self.action, self.when, self.warnings = action, (epoch, step), []

    def warn(self, message) -> None:
        self.warnings.append(message)

    def step(self, done, steps_done, loss) -> None:
        if (done, steps_done) == self.when:
            self.action()

    def epoch(self, record) -> None:
        if (record["epoch"], None) == self.when:
            self.action()


def crash() -> None:
    raise KeyboardInterrupt


def logits(stored: StoredRun, split: str = "test") -> np.ndarray:
    with np.load(stored.predictions_path(split)) as arrays:
        return arrays["logits"]


def history(stored: StoredRun) -> list[list]:
    records = [json.loads(line) for line in (stored.path / "log.jsonl").read_text().splitlines()]
    return [[record["epoch"], record["train"], record["val"]] for record in records]


def same(one: StoredRun, other: StoredRun) -> bool:
    return history(one) == history(other) and all(
        np.array_equal(logits(one, split), logits(other, split)) for split in ("val", "test", "mixed")
    )
