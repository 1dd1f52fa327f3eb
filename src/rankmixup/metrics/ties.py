"""Samples in order of a score, equal scores together, so that no metric of ranks depends on the order of its input."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rankmixup.errors import require


class TieGroups(NamedTuple):
    """One entry for each group of equal rank, ascending; everything in float64 but the sizes."""

    score: Float[Tensor, " G"]
    """Their mean score."""
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


def tie_groups(score: Float[Tensor, " N"], positive: Float[Tensor, " N"], log_odds: Float[Tensor, " N"] | None = None) -> TieGroups:
    """The groups of equal scores; or, of confidences and correctness with the `log_odds` to rank by, of equal `tie_key(log_odds)`.

    >>> tie_groups(torch.tensor([0.5, 0.9, 0.5]), torch.tensor([1.0, 1.0, 0.0])).positive
    tensor([1., 1.], dtype=torch.float64)
    """
    require(len(score) > 0, "scores must hold at least one sample, got none")
    rank, order = (score if log_odds is None else log_odds).detach().sort()
    _, group, size = (rank if log_odds is None else tie_key(rank)).unique_consecutive(return_inverse=True, return_counts=True)
    total = torch.zeros(2, len(size), dtype=torch.float64, device=score.device)
    sums = total.index_add_(1, group, torch.stack([score.detach().double(), positive.detach().double()])[:, order])
    return TieGroups(sums[0] / size, size, sums[1])


def tie_key(log_odds: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """Equal where two log-odds differ by no more than the rounding of their sums over classes: to the precision of float32."""
    return log_odds.float()


def last_of_ties(log_odds: Float[Tensor, " N"]) -> Bool[Tensor, " N"]:
    """Whether each of the sorted log-odds is the last of its ties."""
    key = tie_key(log_odds)
    last = torch.ones(len(key), dtype=torch.bool)
    last[:-1] = key[1:] != key[:-1]
    return last


def confidence_groups(confidence: Float[Tensor, " N"], correct: Float[Tensor, " N"]) -> TieGroups:
    """Groups of equal confidences; positive are the right predictions."""
    return tie_groups(confidence, correct, confidence_odds(confidence))


def odds_groups(log_odds: Float[Tensor, " N"], correct: Float[Tensor, " N"]) -> TieGroups:
    """Groups of equal log-odds, which tell apart confidences that round to 1; positive are the right predictions."""
    return tie_groups(log_odds, correct, log_odds)


def confidence_odds(confidence: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """Log-odds of confidences alone: infinite at 1, and above it, where a row of probabilities does not quite sum to 1."""
    return confidence.double().clamp(max=1).logit_()
