"""Long-tailed versions of a data set: exponentially fewer training samples from class to class."""

import dataclasses

import torch

from rankmixup import random
from rankmixup.data.base import Dataset
from rankmixup.errors import require

__all__ = ["long_tail_counts", "long_tailed"]


def long_tail_counts(largest: int, num_classes: int, imbalance: float) -> list[int]:
    """Samples of each class, from `largest` down to `largest / imbalance`: int(largest * imbalance^(-c / (K - 1))).

    >>> long_tail_counts(5000, 10, 100)  # CIFAR10-LT as published
    [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]
    """
    require(imbalance >= 1, f"imbalance must be at least 1, got {imbalance}")
    require(num_classes >= 2, f"a long tail needs at least 2 classes, got {num_classes}")
    counts = [int(largest * imbalance ** (-label / (num_classes - 1))) for label in range(num_classes)]
    require(counts[-1] >= 1, f"imbalance must leave the rarest class a sample, so be at most {largest}, got {imbalance}")
    return counts


def long_tailed(dataset: Dataset, imbalance: float) -> Dataset:
    """The data set with a long-tailed training split; which samples stay is always the same. Validation and test are untouched.

    The most frequent class keeps what every class has, so that each can fill its place in the profile.
    """
    train = dataset.train
    counts = long_tail_counts(int(dataset.class_counts.min()), dataset.num_classes, imbalance)
    order = torch.randperm(len(train), generator=random.stream(0, "long tail"))
    kept = torch.cat([order[train.y[order] == label][:count] for label, count in enumerate(counts)]).sort().values
    return dataclasses.replace(dataset, train=train[kept])
