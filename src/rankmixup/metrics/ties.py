"""Samples in order of a score, equal scores together, so that no metric of ranks depends on the order of its input."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankmixup.errors import require

__all__ = ["TieGroups", "tie_groups"]


class TieGroups(NamedTuple):
    """One entry for each different score, ascending; everything in float64 but the sizes."""

    score: Float[Tensor, " G"]
    size: Int[Tensor, " G"]
    positive: Float[Tensor, " G"]
    """How many of them are positive (right, or out of distribution)."""

    @property
    def total(self) -> int:
        return int(self.size.sum())

    def auroc(self) -> Float[Tensor, ""]:
        """Chance that a positive scores higher than a negative; a tie counts half."""
        negative = self.size - self.positive
        below = negative.cumsum(0) - negative
        return (self.positive * (below + negative / 2)).sum() / (self.positive.sum() * negative.sum())

    def average_precision(self) -> Float[Tensor, ""]:
        """Mean over positives of the share of positives among everything that scores at least as high."""
        at_least = self.size.flip(0).cumsum(0)
        positive = self.positive.flip(0)
        return (positive * positive.cumsum(0) / at_least).sum() / positive.sum()


def tie_groups(score: Float[Tensor, " N"], positive: Float[Tensor, " N"]) -> TieGroups:
    """The groups of equal scores.

    >>> tie_groups(torch.tensor([0.5, 0.9, 0.5]), torch.tensor([1.0, 1.0, 0.0])).positive
    tensor([1., 1.], dtype=torch.float64)
    """
    require(len(score) > 0, "scores must hold at least one sample, got none")
    score, order = score.detach().sort()
    value, group, size = score.unique_consecutive(return_inverse=True, return_counts=True)
    total = torch.zeros(len(size), dtype=torch.float64, device=score.device)
    return TieGroups(value.double(), size, total.index_add_(0, group, positive.detach().double()[order]))
