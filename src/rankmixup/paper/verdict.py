"""Our seeds beside a published number: their mean with its interval, and whether the number agrees with them.

The interval of a cell is over seeds and samples. Seeds are tested on the same samples, so that the spread between them does not show what
other samples would have changed: the margin of the mean over seeds (Student's t) and the mean margin over samples of a single seed are
therefore added in quadrature, either side by itself. One seed has the margin over samples alone.

A published number is compared with what one further seed would show on the same samples: it *differs* where it lies outside of the 95 %
prediction interval of our seeds, and *agrees* inside, unless that interval is so wide (its margin above half of the published error) that
agreement would mean nothing, or there are fewer than three seeds: then the verdict is *cannot tell*, which tables show as inconclusive.
Only scale `paper` is compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import sqrt
from statistics import fmean, stdev
from typing import Literal

from rankmixup.evaluation import Estimate, over_seeds
from rankmixup.evaluation.registry import metric_named

Verdict = Literal["agrees", "differs", "cannot tell", "other scale", "not published", "not run"]


@dataclass(frozen=True)
class SeedEstimate:
    """A metric over seeds."""

    value: float
    low: float | None
    high: float | None
    floor: float | None
    """Mean over seeds of what calibrated models show."""
    seeds: tuple[float, ...]


def over_runs(runs: Sequence[Estimate]) -> SeedEstimate | None:
    """Mean over seeds with an interval over seeds and samples, if either is known; None without runs.

    >>> over_runs([Estimate(0.10, 0.07, 0.14)])
    SeedEstimate(value=0.1, low=0.07, high=0.14, floor=None, seeds=(0.1,))
    """
    if not runs:
        return None
    values = [each.value for each in runs]
    over = over_seeds(values)
    low, high = runs[0].low, runs[0].high
    if len(runs) > 1:
        between = 0.0 if over.low is None or over.high is None else (over.high - over.low) / 2
        below = [each.value - each.low for each in runs if each.low is not None]
        above = [each.high - each.value for each in runs if each.high is not None]
        low = max(over.value - sqrt(between**2 + fmean(below or [0.0]) ** 2), 0.0)
        high = min(over.value + sqrt(between**2 + fmean(above or [0.0]) ** 2), 1.0)
    floors = [each.floor.mean for each in runs if each.floor is not None]
    return SeedEstimate(over.value, low, high, fmean(floors) if floors else None, tuple(values))


def judge(printed: Decimal, seeds: Sequence[float], metric: str = "ece") -> Verdict:
    """Whether a printed percentage is what one further seed might show.

    >>> judge(Decimal("1.01"), [0.0100, 0.0102, 0.0101]), judge(Decimal("3.75"), [0.0100, 0.0102, 0.0101])
    ('agrees', 'differs')
    >>> judge(Decimal("1.01"), [0.002, 0.010, 0.020]), judge(Decimal("1.01"), [0.0101])
    ('cannot tell', 'cannot tell')
    """
    from scipy.stats import t

    if len(seeds) < 3:
        return "cannot tell"
    percent = [100 * value for value in seeds]
    rounding = 0.5 * 10.0 ** float(printed.as_tuple().exponent)
    reach = float(t.ppf(0.975, len(seeds) - 1)) * stdev(percent) * sqrt(1 + 1 / len(seeds)) + rounding
    if abs(fmean(percent) - float(printed)) > reach:
        return "differs"
    error = 100 - float(printed) if metric_named(metric).higher_is_better else float(printed)
    return "agrees" if reach <= error / 2 else "cannot tell"
