"""Does confidence follow lambda? The paper's hypothesis, Eqs. (7) to (9), made measurable."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankmixup.errors import require

__all__ = ["confidence_by_lambda", "fold_lambda", "kendall_tau", "violated_mixed_pairs", "violated_raw_pairs"]


def fold_lambda(lam: Float[Tensor, "*mixes"]) -> Float[Tensor, "*mixes"]:
    """max(lam, 1 - lam): a mix with lam = 0.2 is as much its partner as one with 0.8 is itself."""
    return torch.maximum(lam, 1 - lam)


def confidence_by_lambda(
    confidence: Float[Tensor, " N"], lam: Float[Tensor, " N"], *, num_bins: int = 10
) -> tuple[Float[Tensor, " H"], Float[Tensor, " H"]]:
    """Mean confidence of mixed samples in equal-width bins of max(lam, 1 - lam), from 0.5 to 1; bin centres and means.

    Empty bins give NaN.

    >>> centres, means = confidence_by_lambda(torch.tensor([0.5, 0.7, 0.9]), torch.tensor([0.4, 0.7, 1.0]), num_bins=2)
    >>> centres.tolist(), [round(mean, 2) for mean in means.tolist()]
    ([0.625, 0.875], [0.6, 0.9])
    """
    require(num_bins >= 1, f"num_bins must be at least 1, got {num_bins}")
    _check_lambda(confidence, lam)
    index = ((fold_lambda(lam) - 0.5) * 2 * num_bins).long().clamp(0, num_bins - 1)
    count = torch.bincount(index, minlength=num_bins)
    total = torch.zeros(num_bins, dtype=confidence.dtype).index_add_(0, index, confidence)
    centres = 0.5 + (torch.arange(num_bins) + 0.5) / (2 * num_bins)
    return centres, total / count


def kendall_tau(a: Float[Tensor, " N"], b: Float[Tensor, " N"]) -> Float[Tensor, ""]:
    """Kendall's tau-b: pairs that `a` and `b` order alike minus those they order against each other, over all pairs, corrected for ties.

    From -1 to 1; NaN where `a` or `b` is constant, and of fewer than two values.

    >>> kendall_tau(torch.tensor([0.5, 0.6, 0.7]), torch.tensor([0.1, 0.3, 0.2]))  # (2 - 1) / 3
    tensor(0.3333, dtype=torch.float64)
    """
    require(a.shape == b.shape, f"a and b must have one shape, got {list(a.shape)} and {list(b.shape)}")
    require(not bool(a.isnan().any() or b.isnan().any()), "a and b must hold numbers, got NaN")
    rank_a, rank_b = (torch.unique(values, return_inverse=True)[1] for values in (a, b))
    both = rank_a * (len(b) + 1) + rank_b
    pairs = _pairs(torch.tensor([len(a)]))
    tied_a, tied_b, tied_both = (_pairs(torch.bincount(torch.unique(each, return_inverse=True)[1])) for each in (rank_a, rank_b, both))
    # Of pairs that `a` ties, the smaller `b` comes first, so that they are no inversions.
    difference = pairs - tied_a - tied_b + tied_both - 2 * _inversions(rank_b[both.argsort()])
    return difference / ((pairs - tied_a) * (pairs - tied_b)).sqrt()


def _pairs(counts: Int[Tensor, " G"]) -> Float[Tensor, ""]:
    """Pairs within groups of these sizes."""
    return (counts * (counts - 1) // 2).sum().double()


def _inversions(ranks: Int[Tensor, " N"]) -> Int[Tensor, ""]:
    """How many pairs stand with the larger rank first.

    Two ranks differ in one highest bit, and agree in all above it: for each bit, the ones that come before a zero are counted
    within groups of equal higher bits.
    """
    total = ranks.new_zeros(())
    for bit in range(len(ranks).bit_length()):
        group = ranks >> (bit + 1)
        order = group.argsort(stable=True)
        one = (ranks[order] >> bit) & 1
        before = one.cumsum(0) - one
        first = torch.searchsorted(group[order], group[order])
        total = total + ((before - before[first]) * (1 - one)).sum()
    return total


def violated_raw_pairs(raw: Float[Tensor, " N"], mixed: Float[Tensor, "M N"]) -> Float[Tensor, ""]:
    """Share of (raw sample, one of its mixes) in which the mix is the more confident, against Eq. (7). Equal ones are no violation.

    >>> violated_raw_pairs(torch.tensor([0.9, 0.6]), torch.tensor([[0.8, 0.7]]))
    tensor(0.5000, dtype=torch.float64)
    """
    require(mixed.shape[1:] == raw.shape, f"mixed must hold M mixes of each of {len(raw)} samples, got shape {list(mixed.shape)}")
    return (mixed > raw).double().mean()


def violated_mixed_pairs(mixed: Float[Tensor, "M N"], lam: Float[Tensor, "M N"]) -> Float[Tensor, ""]:
    """Share of pairs of mixes of one sample in which the one with the smaller max(lam, 1 - lam) is the more confident, against Eq. (9).

    Pairs of equal lambda are left out; NaN where no other is left. Equal confidences are no violation.

    >>> violated_mixed_pairs(torch.tensor([[0.8], [0.6], [0.7]]), torch.tensor([[0.9], [0.3], [0.4]]))  # 0.7 is the wrong side of 0.6
    tensor(0.3333, dtype=torch.float64)
    """
    _check_lambda(mixed, lam)
    folded = fold_lambda(lam)
    one, other = torch.combinations(torch.arange(len(mixed)), 2).unbind(1)
    by_lambda = (folded[one] - folded[other]).sign()
    by_confidence = (mixed[one] - mixed[other]).sign()
    return (by_lambda * by_confidence < 0).double().sum() / (by_lambda != 0).sum()


def _check_lambda(confidence: Tensor, lam: Tensor) -> None:
    require(confidence.shape == lam.shape, f"confidence and lam must have one shape, got {list(confidence.shape)} and {list(lam.shape)}")
