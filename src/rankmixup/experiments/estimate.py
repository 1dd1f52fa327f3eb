"""How long runs will take, before they are trained."""

import functools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch.utils.flop_counter import FlopCounterMode

from rankmixup import random
from rankmixup.data import DataSource
from rankmixup.data.splits import long_tail_counts
from rankmixup.errors import InvalidInput
from rankmixup.experiments.grid import Task
from rankmixup.models import build_model
from rankmixup.runs import Run, StoredRun

Device = Literal["core", "gpu"]

_SIZES = {
    # Channels, classes, and images to train on, to validate on in every epoch, and to test on.
    "cifar10": (3, 10, 45_000, 5_000, 10_000),
    "cifar100": (3, 100, 45_000, 5_000, 10_000),
    "tiny-imagenet": (3, 200, 90_000, 10_000, 10_000),
    "imagenet": (3, 1000, 1_281_167, 10_000, 40_000),
    "digits": (1, 10, 700, 400, 697),
    "fashion-mnist": (1, 10, 54_000, 6_000, 10_000),
    "svhn": (3, 10, 65_932, 7_325, 26_032),
}
_RATES = {"core": 4e10, "gpu": 1.5e13}
"""Floating-point operations in a second: what small convolutions reach on one core, and a tenth of an A100's TF32 peak."""
_STARTUP = 4.0
"""Seconds that each run takes besides training."""


@dataclass(frozen=True)
class Cost:
    """What is still to be done, and how long it takes."""

    runs: int
    done: int
    seconds: float
    """Of one device, for all runs that are not done and of known size."""
    device: Device
    unknown: int
    """Runs of data whose size is not known before it is read."""
    measured: int
    """Finished runs whose own time was taken for others like them."""
    damaged: int = 0
    """Runs that cannot be read, and must be repaired or removed before they are trained."""

    @property
    def assumptions(self) -> str:
        """What the time follows from."""
        where = "on one core" if self.device == "core" else "sustained, a tenth of the TF32 peak of an A100"
        rate = f"{_RATES[self.device] / 1e9:,.0f} billion operations a second {where}"
        parts = {
            f"three times the forward operations for each sample that a method forwards, at {rate}": True,
            f"{_STARTUP:g} s for each run to read its data and to evaluate what it stored": True,
            f"scaled to the time that {self.measured} finished runs took, where they have the same data and network": self.measured,
            f"nothing for {self.unknown} runs of data whose size is not known before it is read": self.unknown,
            f"{self.damaged} runs that cannot be read (see 'rankmixup runs') are to be trained again": self.damaged,
        }
        return "; ".join(part for part, applies in parts.items() if applies)


def cost_of(tasks: Sequence[Task], runs: Path, device: Device, data_root: Path | None = None) -> Cost:
    """The cost of the tasks that are not done; finished runs of the same data and network tell how fast this machine is."""
    left, took = [], defaultdict(list)
    unknown = done = damaged = 0
    for task in tasks:
        finished, work = False, training_work(task.run, data_root)
        kind = f"{task.run.data.content_hash()} {task.run.model}"
        try:
            finished = task.done(runs)
        except InvalidInput:
            damaged += 1
        done += finished
        if work is None:
            unknown += not finished
        elif finished:
            took[kind].append((StoredRun.locate(runs, task.run).result().seconds, work / _RATES[device] + _STARTUP))
        else:
            left.append((kind, work / _RATES[device] + _STARTUP))
    paces = {kind: sum(real for real, _ in pairs) / sum(guess for _, guess in pairs) for kind, pairs in took.items()}
    seconds = sum(guess * paces.get(kind, 1.0) for kind, guess in left)
    return Cost(len(tasks), done, seconds, device, unknown, sum(map(len, took.values())), damaged)


def training_work(run: Run, data_root: Path | None = None) -> float | None:
    """Floating-point operations of a whole run, where a backward pass costs two forward ones; None for data of unknown size."""
    sizes = _sizes(run.data, data_root)
    if sizes is None:
        return None
    channels, classes, train, val, test = sizes
    epochs, forward = run.optimisation.epochs, _forward_work(run.model, run.data.image_size, channels, classes)
    # Every epoch also forwards mixes of validation samples, and the end mixes of test samples.
    looked_at = epochs * (val + 3 * min(val, 1000)) + val + 2 * test
    return forward * (3 * epochs * train * run.method.forwarded + looked_at)


@functools.lru_cache
def _sizes(data: DataSource, root: Path | None) -> tuple[int, int, int, int, int] | None:
    """As in `_SIZES`, of a run's own splits; of data that are not in it, from headers and names of files, if they are there."""
    if data.name not in _SIZES:
        found = data.outline(root)
        return None if found is None else (found.view.in_channels, found.num_classes, len(found.train), len(found.val), len(found.test))
    channels, classes, train, val, test = _SIZES[data.name]
    train, val = getattr(data, "train_size", 0) or train, getattr(data, "val_size", 0) or val
    if data.imbalance > 1 and data.name == "digits":
        train = sum(long_tail_counts(train // classes, classes, data.imbalance))
    elif data.imbalance > 1:  # validation samples come out of what is cut
        cut = sum(long_tail_counts((train + val) // classes, classes, data.imbalance))
        train, val = cut - cut // 10, cut // 10
    return channels, classes, train, val, test


@functools.cache
def _forward_work(model: str, image_size: int, in_channels: int, num_classes: int) -> float:
    """Operations for one image, counted on a network without weights."""
    with random.global_seed(0, "weights"), torch.device("meta"):
        network = build_model(model, num_classes=num_classes, image_size=image_size, in_channels=in_channels)
        image = torch.empty(2, in_channels, image_size, image_size)
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        network(image)
    return counter.get_total_flops() / 2
