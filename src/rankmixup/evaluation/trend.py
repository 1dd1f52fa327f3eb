"""Tests of direction: one number against another over paired seeds, and numbers that rise along ordered settings.

Each test gives two one-sided p-values: how often chance alone would bear a claim out as well as the numbers do, and how often it would
speak against it as much. Each p-value comes in two forms. The *exact* one assumes only that chance treats alike what is exchanged: the
two members of a pair (all sign flips), or the settings of one seed (Page's test, its distribution by enumeration, ties by midranks).
Five pairs can never bring it below 1/32, which no correction for many claims survives; so pairs also have the p-value of
Student's paired test, which can, but assumes normal differences. A verdict asks for both.
"""

import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rankmixup import random
from rankmixup.errors import require
from rankmixup.evaluation.significance import over_seeds

__all__ = ["Direction", "ordered_direction", "paired_direction"]

_ALL_FLIPS = 16
"""Pairs up to which every sign flip is looked at; beyond, a hundred thousand random ones are."""


class Direction(NamedTuple):
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
    values = np.asarray(differences, dtype=np.float64)
    mean = over_seeds(list(differences))
    sums = _flipped_sums(values)
    # Sums of the same numbers in another order differ by rounding.
    slack = 1e-12 * np.abs(values).sum()
    exact_for, exact_against = (float(np.mean(sums >= total - slack)) for total in (values.sum(), -values.sum()))
    p_for, p_against = exact_for, exact_against
    error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0.0
    if error > slack:  # differences that are all the same have no t statistic
        from scipy.stats import t

        p_for, p_against = (float(t.sf(sign * mean.value / error, len(values) - 1)) for sign in (1, -1))
    return Direction("difference", mean.value, mean.low, mean.high, len(values), p_for, p_against, exact_for, exact_against)


def _flipped_sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
    size = len(values)
    if size <= _ALL_FLIPS:
        signs = 1 - 2 * ((np.arange(2**size)[:, None] >> np.arange(size)) & 1)
        return signs @ values
    flips = torch.randint(2, (99_999, size), generator=random.stream(0, "sign flips")).numpy()
    # The observation itself is one of the flips, which keeps the p-value above 0.
    return np.append((1 - 2 * flips) @ values, values.sum())


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
    places = np.asarray(order, dtype=np.int64)
    observed, chance, correlations = 0, np.ones(1), []
    for block in blocks:
        ranks = _doubled_ranks(np.asarray(block, dtype=np.float64))
        observed += int(ranks @ places)
        chance = np.convolve(chance, _distribution(tuple(sorted(ranks.tolist())), tuple(order)))
        spread = ranks.std() * places.std()
        correlations.append(float(((ranks - ranks.mean()) * (places - places.mean())).mean() / spread) if spread else 0.0)
    p_for, p_against = float(chance[observed:].sum()), float(chance[: observed + 1].sum())
    p_for, p_against = min(p_for, 1.0), min(p_against, 1.0)
    return Direction("rank correlation", float(np.mean(correlations)), None, None, len(blocks), p_for, p_against, p_for, p_against)


def _doubled_ranks(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Twice the rank of each value, which is a whole number where equal values share the mean of their ranks."""
    below = (values[:, None] > values).sum(axis=1)
    equal = (values[:, None] == values).sum(axis=1)
    return 2 * below + equal + 1


@lru_cache(maxsize=256)
def _distribution(ranks: tuple[int, ...], places: tuple[int, ...]) -> NDArray[np.float64]:
    """Chance of every value of the sum of rank times place, if all orders of the ranks are equally likely."""
    orders = np.array(list(itertools.permutations(ranks)), dtype=np.int64)
    counts = np.bincount(orders @ np.asarray(places, dtype=np.int64))
    return counts / counts.sum()
