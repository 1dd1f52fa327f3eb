"""Calibration errors: ECE, AECE, MCE, OE and UE (Eqs. 15 to 17).

Equal-width bins are right-closed, `(lo, hi]`, as in the paper. Everything binned is computed from the three sums of
`Bins`, by the functions here and by the streaming metrics alike.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankmixup.errors import require
from rankmixup.metrics.inputs import top_label

__all__ = [
    "Bins",
    "adaptive_calibration_error",
    "adaptive_from_top_label",
    "bin_top_label",
    "expected_calibration_error",
    "maximum_calibration_error",
    "overconfidence_error",
    "underconfidence_error",
]


@dataclass(frozen=True)
class Bins:
    """Sums over confidence bins; they add up over batches and over processes."""

    count: Float[Tensor, " H"]
    confidence: Float[Tensor, " H"]
    correct: Float[Tensor, " H"]

    @property
    def weight(self) -> Float[Tensor, " H"]:
        """Share of all samples in each bin."""
        return self.count / self.count.sum()

    @property
    def mean_confidence(self) -> Float[Tensor, " H"]:
        """Mean confidence in each bin; 0 where it is empty."""
        return self.confidence / self.count.clamp(min=1)

    @property
    def accuracy(self) -> Float[Tensor, " H"]:
        """Share of right predictions in each bin; 0 where it is empty."""
        return self.correct / self.count.clamp(min=1)

    @property
    def gap(self) -> Float[Tensor, " H"]:
        """Confidence minus accuracy: positive where overconfident."""
        return self.mean_confidence - self.accuracy

    def ece(self) -> Float[Tensor, ""]:
        return (self.weight * self.gap.abs()).sum()

    def mce(self) -> Float[Tensor, ""]:
        return self.gap.abs().max()

    def oe(self) -> Float[Tensor, ""]:
        return (self.weight * self.mean_confidence * self.gap.clamp(min=0)).sum()

    def ue(self) -> Float[Tensor, ""]:
        return (self.weight * self.mean_confidence * (-self.gap).clamp(min=0)).sum()


def bin_index(confidence: Float[Tensor, " N"], num_bins: int) -> Int[Tensor, " N"]:
    """Number of the right-closed equal-width bin of each confidence.

    >>> bin_index(torch.tensor([0.1, 0.5, 0.50001, 1.0]), 2)
    tensor([0, 0, 1, 1])
    """
    require(num_bins >= 1, f"num_bins must be at least 1, got {num_bins}")
    edges = torch.linspace(0, 1, num_bins + 1, dtype=torch.float64, device=confidence.device).to(confidence.dtype)
    return torch.bucketize(confidence, edges[1:-1])


def bin_top_label(confidence: Float[Tensor, " N"], correct: Float[Tensor, " N"], num_bins: int) -> Bins:
    """Sums over equal-width bins, in float64 so that adding a million samples loses nothing."""
    index = bin_index(confidence, num_bins)
    values = torch.stack([torch.ones_like(confidence), confidence, correct]).double()
    sums = torch.zeros(3, num_bins, dtype=torch.float64, device=confidence.device)
    return Bins(*sums.index_add_(1, index, values))


def expected_calibration_error(
    probs: Float[Tensor, "N K"], target: Int[Tensor, " N"], *, num_bins: int = 15, from_logits: bool = False
) -> Float[Tensor, ""]:
    """Expected calibration error, Eq. (15): mean over samples of `|confidence - accuracy|` of their bin.

    >>> probs = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.6, 0.4]])
    >>> round(expected_calibration_error(probs, torch.tensor([0, 0, 0, 1])).item(), 4)  # (|.9 - 1| + |.6 - .5|) / 2
    0.1
    """
    return bin_top_label(*top_label(probs, target, from_logits=from_logits), num_bins).ece()


def maximum_calibration_error(
    probs: Float[Tensor, "N K"], target: Int[Tensor, " N"], *, num_bins: int = 15, from_logits: bool = False
) -> Float[Tensor, ""]:
    """Largest `|confidence - accuracy|` of any bin that is not empty."""
    return bin_top_label(*top_label(probs, target, from_logits=from_logits), num_bins).mce()


def overconfidence_error(
    probs: Float[Tensor, "N K"], target: Int[Tensor, " N"], *, num_bins: int = 15, from_logits: bool = False
) -> Float[Tensor, ""]:
    """Overconfidence error, Eq. (16): mean over samples of confidence * max(confidence - accuracy, 0) of their bin.

    >>> probs = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.6, 0.4]])
    >>> round(overconfidence_error(probs, torch.tensor([0, 0, 0, 1])).item(), 4)  # 0.5 * 0.6 * (0.6 - 0.5)
    0.03
    """
    return bin_top_label(*top_label(probs, target, from_logits=from_logits), num_bins).oe()


def underconfidence_error(
    probs: Float[Tensor, "N K"], target: Int[Tensor, " N"], *, num_bins: int = 15, from_logits: bool = False
) -> Float[Tensor, ""]:
    """Underconfidence error, Eq. (17): mean over samples of confidence * max(accuracy - confidence, 0) of their bin.

    >>> probs = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.6, 0.4]])
    >>> round(underconfidence_error(probs, torch.tensor([0, 0, 0, 1])).item(), 4)  # 0.5 * 0.9 * (1 - 0.9)
    0.045
    """
    return bin_top_label(*top_label(probs, target, from_logits=from_logits), num_bins).ue()


Edges = Literal["mass", "release"]


def adaptive_calibration_error(
    probs: Float[Tensor, "N K"],
    target: Int[Tensor, " N"],
    *,
    num_bins: int = 15,
    from_logits: bool = False,
    edges: Edges = "mass",
) -> Float[Tensor, ""]:
    """Adaptive ECE: as ECE, with bins that hold equally many samples.

    **Deviation:** `edges="mass"` cuts the samples by rank into bins whose sizes differ by at most one; samples of equal
    confidence share their mean accuracy, so that their order never matters. `"release"` cuts at interpolated confidences,
    which leaves the smallest one out of every bin and lets ties collapse bins.

    >>> probs = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
    >>> round(adaptive_calibration_error(probs, torch.tensor([0, 0, 0, 1]), num_bins=2).item(), 4)  # (|.85 - 1| + |.65 - .5|) / 2
    0.15
    """
    return adaptive_from_top_label(*top_label(probs, target, from_logits=from_logits), num_bins, edges)


def adaptive_from_top_label(
    confidence: Float[Tensor, " N"], correct: Float[Tensor, " N"], num_bins: int, edges: Edges = "mass"
) -> Float[Tensor, ""]:
    """Adaptive ECE of confidences and correctness."""
    require(num_bins >= 1, f"num_bins must be at least 1, got {num_bins}")
    require(edges in ("mass", "release"), f"edges must be 'mass' or 'release', got {edges!r}")
    if edges == "release":
        return _release_adaptive(confidence, correct, num_bins)
    confidence, order = confidence.double().sort()
    size = len(confidence)
    _, group, sizes = confidence.unique_consecutive(return_inverse=True, return_counts=True)
    per_group = torch.zeros(len(sizes), dtype=torch.float64, device=confidence.device).index_add_(0, group, correct.double()[order])
    gap = confidence - (per_group / sizes)[group]
    bins = torch.arange(size, device=confidence.device) * num_bins // size
    return torch.zeros(num_bins, dtype=torch.float64, device=confidence.device).index_add_(0, bins, gap).abs().sum() / size


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
