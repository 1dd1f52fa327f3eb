"""Does confidence follow lambda? The paper's hypothesis, Eqs. (7) to (9), made measurable."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup.errors import require
from rankmixup.metrics.rows import bin_index, check_num_bins
from rankmixup.ops import ArrayLike, as_tensor, check_floats, check_same_device, check_unit


def fold_lambda(lam: ArrayLike) -> Float[Tensor, "*mixes"]:
    """max(lam, 1 - lam): a mix with lam = 0.2 is as much its partner as one with 0.8 is itself."""
    lam = check_unit("lam", as_tensor("lam", lam), wait=True)
    return torch.maximum(lam, 1 - lam)


def confidence_by_lambda(confidence: ArrayLike, lam: ArrayLike, *, num_bins: int = 10) -> tuple[Float[Tensor, " H"], Float[Tensor, " H"]]:
    """Mean confidence of mixed samples in equal-width bins of max(lam, 1 - lam), from 0.5 to 1; bin centres and means.

    Empty bins give NaN.

    >>> centres, means = confidence_by_lambda(torch.tensor([0.5, 0.7, 0.9]), torch.tensor([0.4, 0.7, 1.0]), num_bins=2)
    >>> centres.tolist(), [round(mean, 2) for mean in means.tolist()]
    ([0.625, 0.875], [0.6, 0.9])
    """
    check_num_bins(num_bins)
    confidence, lam = _same_shape(1, confidence=confidence, lam=lam)
    index = bin_index(2 * fold_lambda(lam) - 1, num_bins)
    count = torch.bincount(index, minlength=num_bins)
    total = confidence.new_zeros(num_bins).index_add_(0, index, confidence)
    centres = 0.5 + (torch.arange(num_bins, device=lam.device) + 0.5) / (2 * num_bins)
    return centres, total / count


def kendall_tau(a: ArrayLike, b: ArrayLike) -> Float[Tensor, ""]:
    """Kendall's tau-b: pairs that `a` and `b` order alike minus those they order against each other, over all pairs, corrected for ties.

    From -1 to 1; NaN where `a` or `b` is constant, and of fewer than two values.

    >>> kendall_tau(torch.tensor([0.5, 0.6, 0.7]), torch.tensor([0.1, 0.3, 0.2]))  # (2 - 1) / 3
    tensor(0.3333, dtype=torch.float64)
    """
    from scipy.stats import kendalltau

    a, b = _same_shape(1, a=a, b=b)
    value = kendalltau(a.double().cpu().numpy(), b.double().cpu().numpy()).statistic if len(a) > 1 else math.nan
    return torch.tensor(value, dtype=torch.float64, device=a.device)


def violated_raw_pairs(raw: ArrayLike, mixed: ArrayLike) -> Float[Tensor, ""]:
    """Share of (raw sample, one of its mixes) in which the mix is the more confident, against Eq. (7). Equal ones are no violation.

    >>> violated_raw_pairs(torch.tensor([0.9, 0.6]), torch.tensor([[0.8, 0.7]]))
    tensor(0.5000, dtype=torch.float64)
    """
    raw, mixed = _checked(1, raw=raw, mixed=mixed)
    require(mixed.shape[1:] == raw.shape, f"mixed must hold M mixes of each of {len(raw)} samples, got shape {list(mixed.shape)}")
    return (mixed > raw).double().mean()


def violated_mixed_pairs(mixed: ArrayLike, lam: ArrayLike) -> Float[Tensor, ""]:
    """Share of pairs of mixes of one sample in which the one with the smaller max(lam, 1 - lam) is the more confident, against Eq. (9).

    Pairs of equal lambda are left out; NaN where no other is left. Equal confidences are no violation.

    >>> violated_mixed_pairs(torch.tensor([[0.8], [0.6], [0.7]]), torch.tensor([[0.9], [0.3], [0.4]]))  # 0.7 is the wrong side of 0.6
    tensor(0.3333, dtype=torch.float64)
    """
    mixed, lam = _same_shape(2, mixed=mixed, lam=lam)
    folded = fold_lambda(lam)
    one, other = torch.combinations(torch.arange(len(mixed), device=mixed.device), 2).unbind(1)
    by_lambda = (folded[one] - folded[other]).sign()
    by_confidence = (mixed[one] - mixed[other]).sign()
    return (by_lambda * by_confidence < 0).double().sum() / (by_lambda != 0).sum()


def _checked(dimensions: int, **given: ArrayLike) -> list[Tensor]:
    """Tensors of one device without NaN, the first of them with so many dimensions."""
    values = [check_floats(name, as_tensor(name, value)).detach() for name, value in given.items()]
    for name, value in zip(given, values, strict=True):
        check_same_device(name, value, values[0])
        require(not bool(value.isnan().any()), f"{name} must hold numbers, got NaN")
    shape = list(values[0].shape)
    require(len(shape) == dimensions, f"{next(iter(given))} must have {dimensions} dimension{'s'[: dimensions - 1]}, got shape {shape}")
    return values


def _same_shape(dimensions: int, **given: ArrayLike) -> list[Tensor]:
    values = _checked(dimensions, **given)
    first, second = (list(value.shape) for value in values)
    require(first == second, f"{' and '.join(given)} must have one shape, got {first} and {second}")
    return values
