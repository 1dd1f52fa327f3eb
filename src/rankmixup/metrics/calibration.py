"""Calibration errors of the predicted class: ECE and its norms, AECE, MCE, OE, UE (Eqs. 15 to 17), debiased ECE and KS.

Equal-width bins are right-closed, `(lo, hi]`, as in the paper: of B bins, k / B belongs to bin k, in whatever type it is given.
Everything binned is computed from the three sums of `Bins`, by the functions here and by the streaming metrics alike; everything
ranked from `TieGroups`.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup.errors import require, require_choice
from rankmixup.metrics.inputs import Logits, Scalar, Target, given_precision, top_label
from rankmixup.metrics.rows import bin_index, check_num_bins
from rankmixup.metrics.ties import TieGroups, confidence_groups

Norm = Literal["l1", "l2", "max"]
Edges = Literal["mass", "release"]
NORMS: tuple[Norm, ...] = get_args(Norm)
EDGES: tuple[Edges, ...] = get_args(Edges)


@dataclass(frozen=True)
class Bins:
    """Sums over confidence bins; they add up over batches and over processes. Leading dimensions are independent sets of bins."""

    count: Float[Tensor, "*R H"]
    confidence: Float[Tensor, "*R H"]
    correct: Float[Tensor, "*R H"]

    @property
    def sums(self) -> Float[Tensor, "3 *R H"]:
        """All three; `Bins(*sums)` are the same bins."""
        return torch.stack([self.count, self.confidence, self.correct])

    @property
    def weight(self) -> Float[Tensor, "*R H"]:
        """Share of all samples in each bin."""
        return self.count / self.count.sum(dim=-1, keepdim=True)

    @property
    def mean_confidence(self) -> Float[Tensor, "*R H"]:
        """Mean confidence in each bin; 0 where it is empty."""
        return self.confidence / self.count.clamp(min=1)

    @property
    def accuracy(self) -> Float[Tensor, "*R H"]:
        """Share of right predictions in each bin; 0 where it is empty."""
        return self.correct / self.count.clamp(min=1)

    @property
    def gap(self) -> Float[Tensor, "*R H"]:
        """Confidence minus accuracy: positive where overconfident."""
        return self.mean_confidence - self.accuracy

    def ece(self, norm: Norm = "l1") -> Float[Tensor, "*R"]:
        if norm == "max":
            return self.mce()
        return (self.weight * self.gap.abs()).sum(dim=-1) if norm == "l1" else (self.weight * self.gap.square()).sum(dim=-1).sqrt()

    def mce(self) -> Float[Tensor, "*R"]:
        return self.gap.abs().amax(dim=-1)

    def oe(self) -> Float[Tensor, "*R"]:
        return (self.weight * self.mean_confidence * self.gap.clamp(min=0)).sum(dim=-1)

    def ue(self) -> Float[Tensor, "*R"]:
        return (self.weight * self.mean_confidence * (-self.gap).clamp(min=0)).sum(dim=-1)

    def debiased(self) -> Float[Tensor, "*R"]:
        """Debiased L2 error; NaN where no bin holds two samples."""
        noise = self.accuracy * (1 - self.accuracy) / (self.count - 1).clamp(min=1)
        known = self.count >= 2
        square = (self.weight * (self.gap.square() - noise) * known).sum(dim=-1)
        return square.clamp(min=0).sqrt().where(known.any(dim=-1), torch.nan)

    def errors(self) -> dict[str, Float[Tensor, "*R"]]:
        """Every error of equal-width bins by its key in an evaluation."""
        norms = {"ece": self.ece(), "ece_l2": self.ece("l2"), "mce": self.mce()}
        return norms | {"oe": self.oe(), "ue": self.ue(), "debiased_ece": self.debiased()}


def bin_top_label(
    confidence: Float[Tensor, " N"], correct: Float[Tensor, " N"], num_bins: int, precision: torch.dtype | None = None
) -> Bins:
    """Sums over equal-width bins, in float64 so that adding a million samples loses nothing."""
    index = bin_index(confidence, num_bins, precision)
    # Of no samples, bincount gives whole numbers.
    return Bins(*(torch.bincount(index, each, num_bins).double() for each in (None, confidence.double(), correct.double())))


def top_label_bins(logits: Logits, target: Target, num_bins: int, *, from_logits: bool) -> Bins:
    """Sums over equal-width bins of the confidence of each prediction."""
    precision = given_precision(logits, from_logits)
    return bin_top_label(*top_label(logits, target, from_logits=from_logits), num_bins, precision)


def expected_calibration_error(
    logits: Logits, target: Target, *, num_bins: int = 15, from_logits: bool = True, norm: Norm = "l1"
) -> Scalar:
    """Expected calibration error, Eq. (15): mean over samples of `|confidence - accuracy|` of their bin.

    `norm="l2"` gives the root of the mean square and `"max"` the largest instead of the mean.

    >>> probs = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.6, 0.4]])
    >>> round(expected_calibration_error(probs, torch.tensor([0, 0, 0, 1]), from_logits=False).item(), 4)  # (|.9 - 1| + |.6 - .5|) / 2
    0.1
    """
    require_choice("norm", norm, NORMS)
    return top_label_bins(logits, target, num_bins, from_logits=from_logits).ece(norm)


def maximum_calibration_error(logits: Logits, target: Target, *, num_bins: int = 15, from_logits: bool = True) -> Scalar:
    """Largest `|confidence - accuracy|` of any bin that is not empty.

    >>> probs = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.7, 0.3], [0.7, 0.3]])
    >>> round(maximum_calibration_error(probs, torch.tensor([0, 0, 0, 1]), from_logits=False).item(), 4)  # max(|.9 - 1|, |.7 - .5|)
    0.2
    """
    return top_label_bins(logits, target, num_bins, from_logits=from_logits).mce()


def overconfidence_error(logits: Logits, target: Target, *, num_bins: int = 15, from_logits: bool = True) -> Scalar:
    """Overconfidence error, Eq. (16): mean over samples of confidence * max(confidence - accuracy, 0) of their bin.

    >>> probs = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.6, 0.4]])
    >>> round(overconfidence_error(probs, torch.tensor([0, 0, 0, 1]), from_logits=False).item(), 4)  # 0.5 * 0.6 * (0.6 - 0.5)
    0.03
    """
    return top_label_bins(logits, target, num_bins, from_logits=from_logits).oe()


def underconfidence_error(logits: Logits, target: Target, *, num_bins: int = 15, from_logits: bool = True) -> Scalar:
    """Underconfidence error, Eq. (17): mean over samples of confidence * max(accuracy - confidence, 0) of their bin.

    >>> probs = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.6, 0.4]])
    >>> round(underconfidence_error(probs, torch.tensor([0, 0, 0, 1]), from_logits=False).item(), 4)  # 0.5 * 0.9 * (1 - 0.9)
    0.045
    """
    return top_label_bins(logits, target, num_bins, from_logits=from_logits).ue()


def debiased_calibration_error(logits: Logits, target: Target, *, num_bins: int = 15, from_logits: bool = True) -> Scalar:
    """Debiased L2 calibration error (Kumar, Liang and Ma, 2019): what ECE of `norm="l2"` would be without sampling noise.

    The squared gap of a bin is too large by the variance of its accuracy, on average; the unbiased estimate of that,
    a (1 - a) / (n - 1), is taken off. What remains of the mean square is set to 0 where noise made it negative, then rooted.
    A bin of one sample says nothing about its variance and counts 0; with no larger bin the error is refused.

    >>> probs = torch.tensor([[0.9, 0.1]] * 4)
    >>> round(debiased_calibration_error(probs, torch.tensor([0, 0, 1, 1]), from_logits=False).item(), 4)  # sqrt(0.4^2 - 0.25 / 3)
    0.2769
    """
    return debiased_of_bins(top_label_bins(logits, target, num_bins, from_logits=from_logits))


def debiased_of_bins(bins: Bins) -> Tensor:
    """Debiased L2 error; refused where no bin is large enough for the estimate."""
    value = bins.debiased()
    require(not bool(value.isnan()), "debiased calibration error must have a bin of at least two samples, got none")
    return value


def ks_calibration_error(logits: Logits, target: Target, *, from_logits: bool = True) -> Scalar:
    """Kolmogorov-Smirnov calibration error (Gupta et al., 2021): no bins.

    Samples in order of confidence; the largest distance between the running sums of confidence and of correctness, over N.
    Samples of equal confidence enter together, so that their order never matters.

    >>> probs = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]])
    >>> round(ks_calibration_error(probs, torch.tensor([0, 1, 1]), from_logits=False).item(), 4)  # (0.6 + 0.8 - 0) / 3
    0.4667
    """
    return ks_from_groups(confidence_groups(*top_label(logits, target, from_logits=from_logits)))


def ks_from_groups(groups: TieGroups) -> Scalar:
    """Kolmogorov-Smirnov calibration error of confidences and correctness."""
    return (groups.size * groups.score - groups.positive).cumsum(0).abs().max() / groups.total


def adaptive_calibration_error(
    logits: Logits, target: Target, *, num_bins: int = 15, from_logits: bool = True, edges: Edges = "mass"
) -> Scalar:
    """Adaptive ECE: as ECE, with bins that hold equally many samples.

    **Deviation:** `edges="mass"` cuts the samples by rank into bins whose sizes differ by at most one; samples of equal
    confidence share their mean accuracy, so that their order never matters. `"release"` cuts at interpolated confidences,
    which leaves the smallest one out of every bin and lets ties collapse bins.

    >>> probs = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
    >>> target = torch.tensor([0, 0, 0, 1])
    >>> round(adaptive_calibration_error(probs, target, num_bins=2, from_logits=False).item(), 4)  # (|.85 - 1| + |.65 - .5|) / 2
    0.15
    """
    return adaptive_from_top_label(*top_label(logits, target, from_logits=from_logits), num_bins, edges)


def adaptive_from_top_label(confidence: Float[Tensor, " N"], correct: Float[Tensor, " N"], num_bins: int, edges: Edges) -> Scalar:
    """Adaptive ECE of confidences and correctness."""
    require_choice("edges", edges, EDGES)
    check_num_bins(num_bins)
    if edges == "release":
        return _release_adaptive(confidence, correct, num_bins)
    groups, size = confidence_groups(confidence, correct), len(confidence)
    gap = (groups.score - groups.positive / groups.size).repeat_interleave(groups.size)
    bins = torch.arange(size, device=gap.device) * num_bins // size
    return torch.bincount(bins, weights=gap, minlength=num_bins).abs().sum() / size


def _release_adaptive(confidence: Tensor, correct: Tensor, num_bins: int) -> Tensor:
    confidence, order = confidence.double().sort()
    correct, size = correct.double()[order], len(confidence)
    # The last abscissa lies one past the last sample and is clamped to it: the release's off-by-one, kept.
    at = torch.linspace(0, size, num_bins + 1, dtype=torch.float64, device=confidence.device).clamp(max=size - 1)
    below = at.floor().long()
    cuts = torch.lerp(confidence[below], confidence[at.ceil().long()], at - below)
    bins = torch.bucketize(confidence, cuts) - 1
    inside = bins >= 0  # (lo, hi] leaves out whatever equals the smallest confidence
    sums = torch.zeros(num_bins, dtype=torch.float64, device=confidence.device)
    return sums.index_add_(0, bins[inside], (confidence - correct)[inside]).abs().sum() / size
