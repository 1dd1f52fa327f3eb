"""The in-memory pipeline on the real CIFAR-10, beside torchvision's data set and transforms in a DataLoader."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.timing import line
from benchmarks.training_step import training_step
from rankmixup.data import Dataset, training_batches
from rankmixup.data.cifar import Cifar10
from rankmixup.methods import CrossEntropy

BATCH = 128
BYTES = 60_000 * 3 * 32 * 32
_MEMORY = """
import time
import torch
from pathlib import Path
from rankmixup.data.cifar import Cifar10

def resident():
    return 1024 * next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))

torch.zeros(1000, 1000).sum()
before, began = resident(), time.perf_counter()
dataset = Cifar10().load(Path({root!r}))
print(time.perf_counter() - began, resident() - before)
"""


def ours(dataset: Dataset) -> Iterator[Any]:
    return training_batches(dataset, BATCH, seed=0, epoch=0)


def torchvisions(root: Path) -> Iterator[Any]:
    """As its own training recipes do it, with two workers."""
    from torchvision.datasets import CIFAR10
    from torchvision.transforms import v2

    steps = [v2.RandomCrop(32, padding=4), v2.RandomHorizontalFlip(), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    transform = v2.Compose([*steps, v2.Normalize((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))])
    dataset = CIFAR10(str(root), train=True, transform=transform)
    return iter(torch.utils.data.DataLoader(dataset, BATCH, shuffle=True, num_workers=2, generator=torch.Generator().manual_seed(0)))


def rate(batches: Iterator[Any], count: int) -> float:
    """Images a second over `count` batches, once the first has come."""
    next(batches)
    began = time.perf_counter()
    for _ in range(count):
        next(batches)
    return count * BATCH / (time.perf_counter() - began)


def main(repeats: int = 3) -> list[str]:
    if "RANKMIXUP_DATA" not in os.environ:
        return ["      left out: RANKMIXUP_DATA names no folder with CIFAR-10"]
    root = Path(os.environ["RANKMIXUP_DATA"])
    dataset = Cifar10().load(root)
    step, rates, seconds = training_step(CrossEntropy(), BATCH), [], []
    for _ in range(repeats):
        # In turns, so that a slow moment of the machine hits all of them.
        rates.append((rate(ours(dataset), 300), rate(torchvisions(root), 60)))
        step()
        began = time.perf_counter()
        for _ in range(5):
            step()
        seconds.append((time.perf_counter() - began) / 5)
    own, other = (statistics.median(each) for each in zip(*rates, strict=True))
    share = BATCH / own / statistics.median(seconds)
    code = _MEMORY.format(root=str(root))
    fresh = [sys.executable, "-c", code]
    loads = [subprocess.run(fresh, capture_output=True, text=True, check=True).stdout.split() for _ in range(repeats)]
    load, memory = (statistics.median(map(float, each)) for each in zip(*loads, strict=True))
    return [
        f"      {own:9,.0f} images a second",
        f"      {other:9,.0f} images a second, torchvision's data set and transforms, two workers",
        line("torchvision's images a second over ours", other / own, 0.10),
        line("a batch over a ResNet-8 training step", share, 0.05),
        line("seconds to load CIFAR-10", load, 3.0),
        line(f"resident memory of CIFAR-10 over its {BYTES / 1e6:.0f} MB", memory / BYTES, 1.20),
    ]
