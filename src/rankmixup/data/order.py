"""In which order an epoch goes through the training samples: a function of seed and epoch alone."""

import math
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from rankmixup import random
from rankmixup.data.base import Dataset

__all__ = ["Sampling", "epoch_order", "epoch_size", "steps_per_epoch"]

Sampling = Literal["shuffle", "class-balanced"]

_TOGETHER = 4
"""Consecutive samples of one class under class-balanced sampling, as in the paper's release."""


def epoch_size(dataset: Dataset, sampling: Sampling = "shuffle") -> int:
    """Samples in an epoch: all of them once; or, class-balanced, as many for each class as the most frequent one has."""
    if sampling == "shuffle":
        return len(dataset.train)
    return int(dataset.class_counts.max()) * dataset.num_classes


def steps_per_epoch(dataset: Dataset, batch_size: int, *, sampling: Sampling = "shuffle", world_size: int = 1) -> int:
    """Steps in an epoch; a last batch too small for every process to get a sample is left out."""
    full, rest = divmod(epoch_size(dataset, sampling), batch_size)
    return full + (rest >= world_size and rest > 0)


def epoch_order(dataset: Dataset, *, seed: int, epoch: int, sampling: Sampling = "shuffle") -> Int[Tensor, " P"]:
    """Positions in the training split, in the order of the epoch."""
    rng = random.stream(seed, "shuffle", epoch)
    if sampling == "shuffle":
        return torch.randperm(len(dataset.train), generator=rng)
    size = epoch_size(dataset, sampling)
    present = dataset.class_counts.nonzero().squeeze(1)
    turns = present[_cycled(len(present), math.ceil(size / _TOGETHER), rng)]
    classes = turns.repeat_interleave(_TOGETHER)[:size]
    order = torch.empty(size, dtype=torch.int64)
    for label in present.tolist():
        members, places = (dataset.train.y == label).nonzero().squeeze(1), (classes == label).nonzero().squeeze(1)
        order[places] = members[_cycled(len(members), len(places), rng)]
    return order


def _cycled(count: int, length: int, rng: torch.Generator) -> Int[Tensor, " L"]:
    """`length` of the numbers below `count`: all of them in a random order, then all again in another."""
    rounds = math.ceil(length / count)
    return random.permutations(rounds, count, rng).flatten()[:length] if rounds else torch.empty(0, dtype=torch.int64)
