"""Long-tailed versions of a data set: exponentially fewer training samples from class to class."""

import dataclasses
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from rankmixup import random
from rankmixup.data.base import Dataset, Split, joined
from rankmixup.data.splits import hold_out_of_each_class
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


def long_tailed(dataset: Dataset, imbalance: float, protocol: Literal["paper", "release"] = "paper") -> Dataset:
    """The data set with a long-tailed training split; which samples stay is always the same. The test split is untouched.

    Where validation samples come from the training set, the profile is cut from both together, and then a tenth of each
    class, at least one sample but never the last, is for validation; where they do not, they stay as they are. With
    `protocol="release"` everything that was cut is trained on and the test samples are the validation samples, as in the
    paper's release.

    The most frequent class keeps what every class has, so that each can fill its place in the profile.
    """
    pool = (dataset.train, dataset.val) if dataset.val_from_train else (dataset.train,)
    y = torch.cat([split.y for split in pool])
    counts = long_tail_counts(int(torch.bincount(y, minlength=dataset.num_classes).min()), dataset.num_classes, imbalance)
    order = torch.randperm(len(y), generator=random.stream(0, "long tail"))
    kept = torch.cat([order[y[order] == label][:count] for label, count in enumerate(counts)]).sort().values
    train, val = _gathered(pool, kept), dataset.val
    if protocol == "release":
        val = dataset.test
    elif dataset.val_from_train:
        rest, held = hold_out_of_each_class(train.y, [min(max(1, count // 10), count - 1) for count in counts], "long tail")
        train, val = train[rest], train[held]
    return dataclasses.replace(dataset, train=train, val=val, published_counts=tuple(counts))


def _gathered(splits: tuple[Split, ...], where: Int[Tensor, " M"]) -> Split:
    """The samples at ascending positions `where` of splits that follow one another."""
    parts, start = [], 0
    for split in splits:
        inside = where[(where >= start) & (where < start + len(split))] - start
        if len(inside) > 0:
            parts.append(split[inside])
        start += len(split)
    return joined(parts)
