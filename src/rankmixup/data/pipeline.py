"""Batches of a split held in memory."""

from collections.abc import Iterator

import torch

from rankmixup import random
from rankmixup.data.base import Split
from rankmixup.types import Batch

__all__ = ["batches_per_epoch", "shuffled_batches"]


def batches_per_epoch(size: int, batch_size: int, world_size: int = 1) -> int:
    """Steps in an epoch; a last batch too small for every process to get a sample is left out."""
    full, rest = divmod(size, batch_size)
    return full + (rest >= world_size and rest > 0)


def shuffled_batches(
    split: Split, batch_size: int, *, seed: int, epoch: int, rank: int = 0, world_size: int = 1, device: torch.device | str = "cpu"
) -> Iterator[Batch]:
    """One epoch in an order that depends on seed and epoch alone; each process takes every `world_size`-th sample of a batch."""
    order = torch.randperm(len(split), generator=random.stream(seed, "shuffle", epoch))
    for number in range(batches_per_epoch(len(split), batch_size, world_size)):
        index = order[number * batch_size : (number + 1) * batch_size][rank::world_size]
        yield Batch(split.x[index].to(device, non_blocking=True), split.y[index].to(device), index.to(device))
