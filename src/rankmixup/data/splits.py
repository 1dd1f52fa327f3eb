"""Which samples are held out: always the same ones, whatever the seed of a run."""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from rankmixup import random
from rankmixup.data.base import Split

__all__ = ["consecutive", "hold_out", "hold_out_of_each_class", "tenth_held_out"]


def hold_out(size: int, count: int, name: str) -> tuple[Int[Tensor, " R"], Int[Tensor, " H"]]:
    """The positions in `range(size)` that stay, and `count` that are held out, drawn for the data set called `name`; both ascend."""
    order = torch.randperm(size, generator=random.stream(0, "split", name))
    return order[count:].sort().values, order[:count].sort().values


def hold_out_of_each_class(y: Int[Tensor, " N"], counts: Sequence[int], name: str) -> tuple[Int[Tensor, " R"], Int[Tensor, " H"]]:
    """The positions that stay, and those of `counts[c]` samples of each class c that are held out; both ascend.

    >>> rest, held = hold_out_of_each_class(torch.tensor([0, 1, 0, 1, 1]), [1, 2], "example")
    >>> len(rest), torch.tensor([0, 1, 0, 1, 1])[held].sort().values.tolist()
    (2, [0, 1, 1])
    """
    order = torch.randperm(len(y), generator=random.stream(0, "split", name))
    held = torch.cat([order[y[order] == label][:count] for label, count in enumerate(counts)]).sort().values
    stays = torch.ones(len(y), dtype=torch.bool)
    stays[held] = False
    return stays.nonzero().squeeze(1), held


def tenth_held_out(train_size: int, test_size: int, name: str) -> tuple[Int[Tensor, " N"], list[int]]:
    """Positions of training, validation and test samples in a training set followed by a test set, and how many each are.

    A tenth of the training set is for validation, not stratified, as for CIFAR in the paper's release.
    """
    rest, held = hold_out(train_size, max(1, train_size // 10), name)
    return torch.cat([rest, held, torch.arange(train_size, train_size + test_size)]), [len(rest), len(held), test_size]


def consecutive(x: Tensor, y: Int[Tensor, " N"], index: Int[Tensor, " N"], sizes: list[int]) -> tuple[Split, Split, Split]:
    """The three splits that lie one behind the other in one store, which they share."""
    train, val, test = (Split(*parts) for parts in zip(x.split(sizes), y.split(sizes), index.split(sizes), strict=True))
    return train, val, test
