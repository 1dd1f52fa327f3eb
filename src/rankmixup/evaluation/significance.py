"""Is a difference more than chance? Two models on one test set, several seeds, and a whole table of p-values."""

from collections.abc import Sequence
from math import erfc, isfinite, sqrt
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rankmixup.errors import require, require_number, shown
from rankmixup.evaluation.replicates import Bootstrap, Samples, bootstrap, ranked_values, read_samples
from rankmixup.evaluation.resampling import bootstrap_weights
from rankmixup.evaluation.statistics import GAP_KEYS, bin_statistics, gap_floor, gap_interval
from rankmixup.ops import as_tensor

__all__ = ["Comparison", "Interval", "holm", "mcnemar", "over_seeds", "paired_comparison"]


class Interval(NamedTuple):
    """A value and the ends of its confidence interval."""

    value: float
    low: float | None
    high: float | None


class Comparison(NamedTuple):
    """The difference between two models, first minus second."""

    difference: float
    low: float
    high: float
    p_value: float
    """Two-sided, of "the two do not differ"."""


_MEANS = ("accuracy", "top5_accuracy", "nll", "brier")
_RANKED = ("aurc", "eaurc", "auroc_correct")


def paired_comparison(
    logits_a: Float[Tensor, "N K"],
    logits_b: Float[Tensor, "N J"],
    target: Int[Tensor, " N"],
    key: str = "ece",
    *,
    from_logits: bool = True,
    num_bins: int = 15,
    replicates: int = 1000,
    rng: torch.Generator,
) -> Comparison:
    """Difference of a metric between two models on the same samples, with its 95 % interval and p-value.

    Samples are resampled jointly, so that what both models find easy or hard cancels. Means, AURC, E-AURC and AUROC have the percentile
    interval of the difference. Errors of calibration are biased, each by its own amount: their two intervals by test
    inversion are combined (Zou and Donner's MOVER), with the correlation of the joint replicates. That interval lies around the
    difference of the values without bias, of which `difference`, that of the plain values, may be off.
    """
    keys = (*_MEANS, *GAP_KEYS, *_RANKED)
    require(isinstance(key, str) and key in keys, f"key must be one of {', '.join(keys)}, got {shown(key)}")
    models = [read_samples(logits, target, num_bins=num_bins, from_logits=from_logits) for logits in (logits_a, logits_b)]
    require(key != "top5_accuracy" or all(key in samples.means for samples in models), "top5_accuracy needs at least 5 classes")
    if key in GAP_KEYS:
        return _combined(key, models, bootstrap(models, replicates, rng, ranked=False), replicates, rng)
    difference, replicated = (_mean_differences if key in _MEANS else _ranked_differences)(key, models, replicates, rng)
    replicated = replicated[replicated.isfinite()]
    require(len(replicated) > 0 and isfinite(difference), f"{key} of these predictions must be a finite number, which it is not")
    low, high = replicated.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    beyond = min(int((replicated <= 0).sum()), int((replicated >= 0).sum()))
    return Comparison(difference, low, high, min(1.0, 2 * (1 + beyond) / (1 + len(replicated))))


def _mean_differences(key: str, models: list[Samples], replicates: int, rng: torch.Generator) -> tuple[float, Tensor]:
    """Of each sample first, so that what two models share cancels to exactly 0."""
    columns = [samples.means[key].double() for samples in models]
    a, b = (torch.empty_like(column).index_copy_(0, samples.order.long(), column) for column, samples in zip(columns, models, strict=True))
    mean = (a - b).mean()
    deviation = (a - b - mean).float()
    draws = [weights @ deviation for weights in bootstrap_weights(len(deviation), replicates, rng)]
    return mean.item(), mean + torch.cat(draws).double() / len(deviation)


def _ranked_differences(key: str, models: list[Samples], replicates: int, rng: torch.Generator) -> tuple[float, Tensor]:
    every = torch.ones(1, len(models[0]))
    value_a, value_b = (ranked_values(every, samples)[key].item() for samples in models)
    a, b = bootstrap(models, replicates, rng)
    return value_a - value_b, a.ranked[key] - b.ranked[key]


def _combined(key: str, models: list[Samples], draws: list[Bootstrap], replicates: int, rng: torch.Generator) -> Comparison:
    a, b = (gap_interval(samples, key, draw, gap_floor(samples, key, replicates, rng)) for samples, draw in zip(models, draws, strict=True))
    values = [bin_statistics(samples)[key](draw.mass if key == "aece" else draw.width) for samples, draw in zip(models, draws, strict=True)]
    correlation = torch.corrcoef(torch.stack(values))[0, 1].nan_to_num().item()
    centre = a.centre - b.centre

    def margin(of_a: float, of_b: float) -> float:
        return sqrt(max(of_a**2 + of_b**2 - 2 * correlation * of_a * of_b, 0.0))

    below, above = margin(a.centre - a.low, b.high - b.centre), margin(a.high - a.centre, b.centre - b.low)
    towards_zero = below if centre > 0 else above
    # 1.96 standard errors fit into the side of the interval that looks towards 0.
    p_value = erfc(1.96 * abs(centre) / towards_zero / sqrt(2)) if towards_zero > 0 else float(centre == 0)
    difference = a.value - b.value
    return Comparison(difference, max(centre - below, -1.0), min(centre + above, 1.0), p_value)


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


def over_seeds(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Mean over seeds with Student's t interval; one seed has no interval.

    >>> [round(x, 4) for x in over_seeds([1.0, 2.0, 3.0])]  # 2 -+ 4.3027 / sqrt(3)
    [2.0, -0.4841, 4.4841]
    >>> over_seeds([1.0])
    Interval(value=1.0, low=None, high=None)
    """
    from scipy.stats import t

    tensor = _numbers("values", values)
    require(len(tensor) > 0, "values must hold at least one seed, got none")
    require_number("confidence", confidence)
    require(0 < confidence < 1, f"confidence must lie between 0 and 1, got {confidence}")
    require(bool(tensor.isfinite().all()), f"values must be finite, got {shown(tensor.tolist())}")
    mean, size = tensor.mean().item(), len(tensor)
    if size == 1:
        return Interval(mean, None, None)
    margin = float(t.ppf((1 + confidence) / 2, size - 1)) * tensor.std().item() / size**0.5
    return Interval(mean, mean - margin, mean + margin)
