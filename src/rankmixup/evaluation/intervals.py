"""Confidence intervals of binned calibration errors, by inverting a test.

A calibration error is a norm of gaps that are themselves estimated: noise folds into it, so that it lies above the population's
value, by as much as the whole noise floor where the model is calibrated. The percentile bootstrap adds that noise a second
time and misses small values altogether. Here every candidate value is tested instead: a population that has it is built from the
observed gaps, the error that samples of it would show is simulated with the noise that the bootstrap found, and the candidate is
kept where the observed error lies in the central 95 % of those.

Which population has the value t? Gaps that stand out of their noise are real and the others may be zero, so the observed gaps are
soft-thresholded (or grown) by a common amount in units of `noise ** 1.5`. That lies between the thresholds that leave the
likeliest population with sparse gaps (`noise ** 2`) and one that treats all bins alike (`noise ** 1`); the first covers errors
that sit in a single large bin too seldom, the second the others too often (`studies/coverage.py`).
Two corners are exact: the lower end is 0 unless the consistency test rejects calibration at 2.5 %; and the upper end reaches, up to
twice the noise floor, as far as the least favourable population does: the one whose gaps are all the same number of standard
errors, which by convexity hides the largest error behind a given observation.
"""

from collections.abc import Callable
from functools import partial
from math import asinh, inf, sinh
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup.evaluation.results import NoiseFloor

_TAIL = 0.025

Statistic = Callable[[Tensor], Tensor]
Path = Callable[[float], Tensor]


class Inverted(NamedTuple):
    """The observed value with its 95 % interval."""

    value: float
    low: float
    high: float
    centre: float
    """The value without its bias: that of a population whose samples show less than was observed as often as more."""


def inverted_interval(
    gap: Float[Tensor, " H"], noise: Float[Tensor, "R H"], statistic: Statistic, floor: NoiseFloor, *, signed: bool = False
) -> Inverted:
    """The 95 % interval of `statistic(population gaps)`.

    `gap` are the observed gaps (times the share of their bin), `noise` the bootstrap's deviations from them. `statistic` must not
    decrease where a gap grows away from 0, or, if `signed`, where it grows from 0 upwards; gaps below 0 then stay as they are.
    """
    observed = statistic(gap).item()
    spread = noise.std(dim=0, correction=0)
    if float(spread.sum()) == 0:
        return Inverted(observed, observed, observed, observed)
    unit = spread**1.5
    size = gap.clamp(min=0) if signed else gap.abs()
    sign = torch.where(gap < 0, -1.0, 1.0).to(gap.dtype)
    moves = gap > 0 if signed else torch.ones_like(gap, dtype=torch.bool)

    # Searched on a logarithmic scale in both directions: a gap with hardly any noise makes the range of thresholds very long.
    def thresholded(place: float) -> Tensor:
        return torch.where(moves, sign * (size + sinh(place) * unit).clamp(min=0), gap)

    def even(errors: float) -> Tensor:
        return errors * spread if signed else errors * sign * spread

    # Ten standard errors above the observation nothing is accepted any more.
    highest = float((size.sum() + 10 * spread.norm()) / spread.norm())
    lowest, highest_shift = -float((size / unit.clamp(min=1e-300)).max()), highest * float(spread.norm() / unit.sum())
    last_even = _accepted(even, noise, statistic, observed, 0.0, highest * float(spread.norm() / spread.sum()))
    reach = min(statistic(even(last_even)).item(), 2 * floor.mean)
    accepted = partial(_accepted, thresholded, noise, statistic, observed, asinh(lowest), asinh(highest_shift))
    return _interval(accepted, lambda place: statistic(thresholded(place)).item(), observed, floor, reach)


def scaled_interval(
    gap: Float[Tensor, " P"],
    noise: Float[Tensor, "R P"],
    statistic: Statistic,
    floor: NoiseFloor,
    *,
    spread: float | None = None,
    metric: Callable[[float], float] | None = None,
) -> Inverted:
    """As `inverted_interval`, for gaps that depend on each other and so cannot shrink one by one: all are scaled by one factor.

    `spread` is the standard error of the statistic of large gaps; if given, the upper end reaches at least as far as without any bias.
    `metric(factor)` is the metric of a population with so scaled gaps, `statistic` of them unless given.
    """
    metric = metric or (lambda factor: statistic(factor * gap).item())
    observed = statistic(gap).item()
    if observed == 0:
        return Inverted(0.0, 0.0, floor.high, 0.0)
    limit = 2 * floor.mean if spread is None else inf
    spread = noise.std(dim=0, correction=0).max().item() if spread is None else spread
    # The least favourable population has no bias at all.
    reach = min(observed + 1.96 * spread, limit)
    accepted = partial(_accepted, lambda factor: factor * gap, noise, statistic, observed, 0.0, 1 + 10 * spread / observed)
    return _interval(accepted, metric, observed, floor, reach)


def _interval(
    accepted: Callable[..., float], metric: Callable[[float], float], observed: float, floor: NoiseFloor, reach: float
) -> Inverted:
    """From the parameters that are `accepted`; the upper end is at least `reach` and, as a reader expects, the observed value."""
    upper, centre = (metric(accepted(tail=tail)) for tail in (_TAIL, 0.5))
    lower = 0.0 if floor.p_value >= _TAIL else metric(accepted(last=False))
    return Inverted(observed, min(lower, observed), max(upper, reach, observed), centre)


def _accepted(
    path: Path, noise: Tensor, statistic: Statistic, observed: float, low: float, high: float, *, tail: float = _TAIL, last: bool = True
) -> float:
    """The last population on the path from which the observation is not too small, or the first from which it is not too large.

    Populations are given by the parameter of the path, with which gaps grow.
    """
    for _ in range(20):
        middle = (low + high) / 2
        values = statistic(path(middle) + noise)
        share = (values <= observed if last else values >= observed).double().mean().item()
        low, high = (middle, high) if (share >= tail) == last else (low, middle)
    return low if last else high
