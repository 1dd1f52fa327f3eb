"""A network and batches small enough for thousands of tests, and two processes that talk to each other."""

import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn

from rankmixup import random
from rankmixup.types import Batch

T = TypeVar("T")


class TinyNet(nn.Module):
    """Two convolutional stages with BatchNorm and a linear layer, for images `[B, 3, H, W]`."""

    stages = ("layer1", "layer2")

    def __init__(self, num_classes: int = 4, *, seed: int = 0):
        super().__init__()
        with random.global_seed(seed, "tiny-net"):
            # No bias in front of BatchNorm and no ReLU: every parameter has a gradient, whatever the weights.
            self.layer1 = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.GELU())
            self.layer2 = nn.Sequential(nn.Conv2d(6, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.GELU())
            self.head = nn.Linear(8, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits `[B, num_classes]`."""
        return self.head(self.layer2(self.layer1(x)).mean(dim=(2, 3)))


def toy_batch(size: int = 8, num_classes: int = 4, *, seed: int = 0) -> Batch:
    """Random 6x6 images with random labels, at the first `size` positions of a training set."""
    rng = random.stream(seed, "toy-batch")
    x = torch.randn(size, 3, 6, 6, generator=rng)
    y = torch.randint(num_classes, (size,), generator=rng)
    return Batch(x, y, torch.arange(size))


def two_processes(function: Callable[..., T], *args: Any) -> tuple[T, T]:
    """`function(rank, *args)` in two fresh processes joined by gloo; gives back both results or raises the first error.

    The function must live in a module that the processes can import. Let it return plain data: a tensor would be shared
    with a process that has ended.
    """
    # A file, not a port, for the processes to meet at: nobody else can take it.
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        meeting = (Path(folder) / "store").as_uri()
        futures = [pool.submit(_joined, rank, meeting, function, args) for rank in range(2)]
        for future in as_completed(futures):
            future.result()  # In order of completion: the other's error only says that this one has left.
        return futures[0].result(), futures[1].result()


def _joined(rank: int, meeting: str, function: Callable[..., T], args: tuple[Any, ...]) -> T:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2, timeout=timedelta(minutes=1))
    try:
        return function(rank, *args)
    finally:
        distributed.destroy_process_group()
