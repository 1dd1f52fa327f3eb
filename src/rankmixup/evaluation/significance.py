"""Tests and intervals that need no scores: two models' correctness, several seeds, and many p-values."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rankmixup.errors import require, require_number, shown
from rankmixup.evaluation.results import Estimate
from rankmixup.ops import as_tensor

__all__ = ["holm", "mcnemar", "over_seeds"]


def mcnemar(correct_a: Bool[Tensor, " N"], correct_b: Bool[Tensor, " N"]) -> float:
    """Exact two-sided p-value of "both models are equally accurate", from the samples that only one of them gets right.

    >>> a = torch.tensor([True] * 9 + [False])
    >>> round(mcnemar(a, torch.tensor([False] * 8 + [True, True])), 4)  # 8 against 1: 2 * (1 + 9) / 2**9
    0.0391
    """
    from scipy.stats import binomtest

    correct_a, correct_b = as_tensor("correct_a", correct_a), as_tensor("correct_b", correct_b)
    for name, correct in (("correct_a", correct_a), ("correct_b", correct_b)):
        require(correct.dtype == torch.bool and correct.ndim == 1, f"{name} must hold True or False for each sample, got {shown(correct)}")
    require(correct_a.shape == correct_b.shape, f"both models need the same samples, got {len(correct_a)} and {len(correct_b)}")
    only_a, only_b = int((correct_a & ~correct_b).sum()), int((correct_b & ~correct_a).sum())
    return float(binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: those below 0.05 are all true with a chance of at least 95 %, whatever their dependence.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    p_values = _numbers("p_values", p_values).tolist()
    require(all(0 <= p <= 1 for p in p_values), f"p-values must lie in [0, 1], got {shown(p_values)}")
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted


def _numbers(name: str, values: Sequence[float]) -> Float[Tensor, " S"]:
    numbers = as_tensor(name, values).double()
    require(numbers.ndim == 1, f"{name} must be a list of numbers, got shape {list(numbers.shape)}")
    return numbers


def over_seeds(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Mean over seeds with Student's t interval; one seed has no interval.

    >>> found = over_seeds([1.0, 2.0, 3.0])  # 2 -+ 4.3027 / sqrt(3)
    >>> found.value, round(found.low, 4), round(found.high, 4)
    (2.0, -0.4841, 4.4841)
    >>> over_seeds([1.0])
    Estimate(value=1.0, low=None, high=None, floor=None, p_value=None, verdict=None)
    """
    from scipy.stats import t

    tensor = _numbers("values", values)
    require(len(tensor) > 0, "values must hold at least one seed, got none")
    require_number("confidence", confidence)
    require(0 < confidence < 1, f"confidence must lie between 0 and 1, got {confidence}")
    require(bool(tensor.isfinite().all()), f"values must be finite, got {shown(tensor.tolist())}")
    mean, size = tensor.mean().item(), len(tensor)
    if size == 1:
        return Estimate(mean)
    margin = float(t.ppf((1 + confidence) / 2, size - 1)) * tensor.std().item() / size**0.5
    return Estimate(mean, mean - margin, mean + margin)
