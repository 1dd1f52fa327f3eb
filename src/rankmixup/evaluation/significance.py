"""Tests and intervals of numbers that were measured already: correctness of two models, several seeds, many p-values, directions.

A test of direction (one number against another over paired seeds, or numbers that rise along ordered settings) gives two one-sided
p-values: how often noise alone would support a claim as well as the numbers do, and how often it would contradict it as much. Each comes in
two forms. The *exact* one assumes only that what is exchanged has the same distribution: the two members of a pair (all sign flips), or the
settings of one seed (Page's test, its distribution by enumeration, ties by midranks). Five pairs can never bring it below 1/32, which no
correction for many claims survives; so pairs also have the p-value of Student's paired test, which assumes normal differences. A
verdict asks for both.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isfinite
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from rankmixup import random
from rankmixup.errors import require, require_number, shown
from rankmixup.evaluation.results import Difference, Estimate, Metrics, NoiseFloor
from rankmixup.ops import as_tensor


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
        adjusted[i] = largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
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


def seeds_difference(differences: Sequence[float]) -> Difference:
    """Mean of the differences between two models with the same seed, at least two, with Student's interval and p-value."""
    mean, direction = over_seeds(differences), paired_direction(differences)
    assert mean.low is not None
    assert mean.high is not None
    return Difference(mean.value, mean.low, mean.high, min(1.0, 2 * min(direction.p_for, direction.p_against)), "paired t over seeds")


def metrics_over_seeds(runs: Sequence[Metrics]) -> Metrics:
    """Mean over seeds of each metric and of its noise floor; of one seed the estimates themselves.

    A metric that a seed lacks or that is infinite there is None. Where verdicts differ, the verdict counts the miscalibrated seeds.
    """
    if len(runs) == 1:
        return dict(runs[0])
    found: Metrics = {}
    for key in runs[0]:
        seeds = [estimate for metrics in runs if (estimate := metrics[key]) is not None and isfinite(estimate.value)]
        if len(seeds) < len(runs):
            found[key] = None
            continue
        mean, floors = over_seeds([each.value for each in seeds]), [each.floor for each in seeds if each.floor is not None]
        floor = NoiseFloor(*(sum(column) / len(floors) for column in zip(*floors, strict=True))) if floors else None
        found[key] = replace(mean, floor=floor, verdict=verdict_over_seeds([each.verdict for each in seeds]))
    return found


def verdict_over_seeds(verdicts: Sequence[str | None]) -> str | None:
    """The verdict of all seeds; where they differ, it counts the miscalibrated ones."""
    bad = verdicts.count("miscalibrated")
    return f"miscalibrated in {bad} of {len(verdicts)} seeds" if 0 < bad < len(verdicts) else verdicts[0]


@dataclass(frozen=True)
class Direction:
    """What repeated measurements say about a direction."""

    kind: Literal["difference", "rank correlation"]
    effect: float
    """Mean difference of pairs, or mean rank correlation of ordered settings with the claimed order."""
    low: float | None
    """Ends of the 95 % interval of a mean difference."""
    high: float | None
    blocks: int
    """Pairs, or seeds with all their settings."""
    p_for: float
    """Chance of numbers that bear the direction out at least as well, if there is none."""
    p_against: float
    exact_for: float
    exact_against: float


def paired_direction(differences: Sequence[float]) -> Direction:
    """Whether differences tend to be above 0.

    >>> found = paired_direction([1.0, 1.2, 0.9, 1.1, 1.0])
    >>> found.exact_for, found.exact_against, found.p_for < 0.001
    (0.03125, 1.0, True)
    """
    require(len(differences) > 0, "differences must hold at least one pair, got none")
    values, size = np.asarray(differences, dtype=np.float64), len(differences)
    mean = over_seeds(list(differences))
    if size <= 16:  # every sign flip; beyond, a hundred thousand random ones
        sums = (1 - 2 * ((np.arange(2**size)[:, None] >> np.arange(size)) & 1)) @ values
    else:
        flips = torch.randint(2, (99_999, size), generator=random.stream(0, "sign flips")).numpy()
        sums = np.append((1 - 2 * flips) @ values, values.sum())  # itself one of the flips, which keeps the p-value above 0
    # Sums of the same numbers in another order differ by rounding.
    slack = 1e-12 * np.abs(values).sum()
    exact_for, exact_against = (float(np.mean(sums >= total - slack)) for total in (values.sum(), -values.sum()))
    p_for, p_against = exact_for, exact_against
    error = values.std(ddof=1) / size**0.5 if size > 1 else 0.0
    if error > slack:  # differences that are all the same have no t statistic
        from scipy.stats import t

        p_for, p_against = (float(t.sf(sign * mean.value / error, size - 1)) for sign in (1, -1))
    return Direction("difference", mean.value, mean.low, mean.high, size, p_for, p_against, exact_for, exact_against)


def ordered_direction(blocks: Sequence[Sequence[float]], order: Sequence[int]) -> Direction:
    """Whether values rise along the settings of each block: Page's test, exact.

    `order` gives the place of each setting in the claimed order, from low to high; settings of one place are not compared.

    >>> found = ordered_direction([[1.0, 2.0, 3.0], [1.0, 3.0, 2.0], [0.0, 1.0, 5.0]], [0, 1, 2])
    >>> round(found.effect, 3), round(found.p_for * 6**3)  # of 216 orders of three seeds: 1 is better, 6 as good
    (0.833, 7)
    """
    require(len(blocks) > 0, "blocks must hold at least one seed, got none")
    require(all(len(block) == len(order) for block in blocks), f"every block must have {len(order)} values, one for each setting")
    require(len(set(order)) > 1, f"order must tell settings apart, got {list(order)}")
    from scipy.stats import rankdata

    places = np.asarray(order, dtype=np.int64)
    observed, chance, correlations = 0, np.ones(1), []
    for block in blocks:
        ranks = (2 * rankdata(block)).astype(np.int64)  # whole numbers, though equal values share the mean of their ranks
        observed += int(ranks @ places)
        chance = np.convolve(chance, _distribution(tuple(sorted(ranks.tolist())), tuple(order)))
        spread = ranks.std() * places.std()
        correlations.append(float(((ranks - ranks.mean()) * (places - places.mean())).mean() / spread) if spread else 0.0)
    p_values = [min(float(part.sum()), 1.0) for part in (chance[observed:], chance[: observed + 1])]
    return Direction("rank correlation", float(np.mean(correlations)), None, None, len(blocks), *p_values, *p_values)


@lru_cache(maxsize=256)
def _distribution(ranks: tuple[int, ...], places: tuple[int, ...]) -> NDArray[np.float64]:
    """Chance of every value of the sum of rank times place, if all orders of the ranks are equally likely."""
    orders = np.array(list(itertools.permutations(ranks)), dtype=np.int64)
    counts = np.bincount(orders @ np.asarray(places, dtype=np.int64))
    return counts / counts.sum()
