"""Which samples are in which split, held out or left out for a long tail: always the same ones, for every seed."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

from rankmixup import random
from rankmixup.data.base import Dataset, ImageFiles, Images, Split
from rankmixup.errors import require

Splits = tuple[Split, Split, Split]
"""For training, validation and testing."""


def stratified_hold_out(y: Int[Tensor, " N"], counts: Sequence[int], name: str) -> tuple[Int[Tensor, " R"], Int[Tensor, " H"]]:
    """The positions that remain, and those of `counts[c]` samples of each class c that are held out; both ascend.

    >>> rest, held = stratified_hold_out(torch.tensor([0, 1, 0, 1, 1]), [1, 2], "example")
    >>> len(rest), torch.tensor([0, 1, 0, 1, 1])[held].sort().values.tolist()
    (2, [0, 1, 1])
    """
    order = torch.randperm(len(y), generator=random.stream(0, "split", name))
    held = torch.cat([order[y[order] == label][:count] for label, count in enumerate(counts)]).sort().values
    remains = torch.ones(len(y), dtype=torch.bool)
    remains[held] = False
    return remains.nonzero().squeeze(1), held


def fewer(split: Split, size: int, name: str, num_classes: int) -> Split:
    """`size` samples, as many of each class, always the same ones for this name, which ends in that of the field; 0 keeps all."""
    if size == 0:
        return split
    counts = [size // num_classes + (label < size % num_classes) for label in range(num_classes)]
    _, kept = stratified_hold_out(split.y, counts, name)
    field = name.rpartition(" ")[2]
    require(len(kept) == size, f"{field} must leave every class enough images, {len(split)} are there, got {size}")
    return split[kept]


def shrunk(split: Split, side: int) -> Split:
    """Images whose pixels are the means of squares of `side` pixels."""
    if side == 1:
        return split
    assert isinstance(split.x, Tensor)
    parts = [F.avg_pool2d(part.float(), side).round().to(torch.uint8) for part in split.x.split(1000)]
    return Split(torch.cat(parts).contiguous(memory_format=torch.channels_last), split.y, split.index)


def with_tuning_split(dataset: Dataset, share: float) -> Dataset:
    """The data set with this share of the validation samples of each class kept apart as its tuning split; all of it leaves none apart."""
    if share == 1:
        return dataset
    counts = [round(share * int((dataset.val.y == label).sum())) for label in range(dataset.num_classes)]
    rest, held = stratified_hold_out(dataset.val.y, counts, "tuning")
    rule = f"tune_on must leave validation samples on both sides, got {share} of {len(dataset.val)} samples"
    require(len(rest) > 0 and len(held) > 0, rule)
    return dataclasses.replace(dataset, val=dataset.val[rest], tuning=dataset.val[held])


def tenth_held_out(train_size: int, test_size: int, name: str) -> tuple[Int[Tensor, " N"], list[int]]:
    """Positions of training, validation and test samples in a training set followed by a test set, and the size of each split.

    A tenth of the training set, drawn for the data set called `name`, is for validation, not stratified, as for CIFAR in the
    paper's release.
    """
    order, count = torch.randperm(train_size, generator=random.stream(0, "split", name)), max(1, train_size // 10)
    rest, held = order[count:].sort().values, order[:count].sort().values
    return torch.cat([rest, held, torch.arange(train_size, train_size + test_size)]), [len(rest), len(held), test_size]


def consecutive(x: Tensor, y: Int[Tensor, " N"], index: Int[Tensor, " N"], sizes: list[int]) -> Splits:
    """The three splits out of one tensor that holds them one after the other, and whose memory they share."""
    train, val, test = (Split(*parts) for parts in zip(x.split(sizes), y.split(sizes), index.split(sizes), strict=True))
    return train, val, test


def published_splits(train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], name: str) -> Splits:
    """The splits of published training and test images with their labels; a tenth of the former is for validation."""
    index, sizes = tenth_held_out(len(train[1]), len(test[1]), name)
    return consecutive(torch.cat([train[0], test[0]])[index], torch.cat([train[1], test[1]])[index], index, sizes)


def complete_splits(images: Images, y: Int[Tensor, " N"], given: dict[str, Int[Tensor, " M"]], class_names: tuple[str, ...]) -> Splits:
    """The splits, with the samples of splits that are not given taken from the training samples.

    Validation gets a tenth and test a fifth of each class, at least one sample, always the same ones.

    Args:
        images: all images.
        y: their labels.
        given: positions of the samples of "train" and, where there are such splits, "val" and "test".
        class_names: names of the classes.

    Returns:
        Training, validation and test split.
    """
    parts = dict(given)
    for split, share in (("test", 5), ("val", 10)):
        if split in given:
            continue
        labels = y[parts["train"]]
        counts = torch.bincount(labels, minlength=len(class_names)).tolist()
        for class_name, count in zip(class_names, counts, strict=True):
            require(count >= 2, f"class {class_name!r} must have a sample for each of train, val and test, too few are left for {split}")
        rest, held = stratified_hold_out(labels, [max(1, count // share) for count in counts], split)
        parts[split], parts["train"] = parts["train"][held], parts["train"][rest]
    train, val, test = (Split(images[parts[name]], y[parts[name]], parts[name]) for name in ("train", "val", "test"))
    return train, val, test


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
    """The data set with a long-tailed training split, always of the same samples, and the same test split.

    The most frequent class keeps as many samples as every class has. Where validation samples come from the training set, the
    long tail is cut from both together, and then a tenth of each class, at least one sample but never the last, is for
    validation; where they do not, they stay as they are. With `protocol="release"` everything that was cut is trained on and
    the test samples are the validation samples, as in the paper's release.
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
        rest, held = stratified_hold_out(train.y, [min(max(1, count // 10), count - 1) for count in counts], "long tail")
        train, val = train[rest], train[held]
    return dataclasses.replace(dataset, train=train, val=val, published_counts=tuple(counts))


def _gathered(splits: tuple[Split, ...], where: Int[Tensor, " M"]) -> Split:
    """The samples at ascending positions `where` of consecutive splits, without a copy of all of them."""
    parts, start = [], 0
    for split in splits:
        inside = where[(where >= start) & (where < start + len(split))] - start
        if len(inside) > 0:
            parts.append(split[inside])
        start += len(split)
    images: list[Any] = [part.x for part in parts]
    files = isinstance(images[0], ImageFiles)
    several = len(images) > 1  # never of samples that a data set makes, whose validation samples are not taken from the training samples
    x = images[0] if not several else ImageFiles(images[0].folder, sum((each.names for each in images), ())) if files else torch.cat(images)
    return Split(x, torch.cat([part.y for part in parts]), torch.cat([part.index for part in parts]))
