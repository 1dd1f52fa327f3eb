"""Numbers with their uncertainty: estimates, noise floors, intervals, and their JSON."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor


class NoiseFloor(NamedTuple):
    """What a metric shows for perfectly calibrated models with the same confidences."""

    mean: float
    low: float
    high: float
    p_value: float
    """Probability that a perfectly calibrated model shows at least the observed value."""


@dataclass(frozen=True)
class Estimate:
    """A metric with its 95 % confidence interval and, for a calibration error, what calibrated models show."""

    value: float
    low: float | None = None
    high: float | None = None
    floor: NoiseFloor | None = None
    p_value: float | None = None
    """Of the hypothesis that the model is calibrated."""
    verdict: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON data, null for what is not a finite number."""
        floor = self.floor and {"mean": self.floor.mean, "low": self.floor.low, "high": self.floor.high}
        return plain({**self.interval_dict(), "floor": floor, "p_value": self.p_value, "verdict": self.verdict})

    def interval_dict(self) -> dict[str, float | None]:
        """Value and interval alone."""
        return plain({"value": self.value, "low": self.low, "high": self.high})


Metrics = dict[str, Estimate | None]
"""By key; None for a metric that is not defined on the scores."""


def plain(data: Any) -> Any:
    """JSON data; null for what is not a finite number."""
    if isinstance(data, Mapping):
        return {str(key): plain(value) for key, value in data.items()}
    if hasattr(data, "to_dict"):
        return data.to_dict()
    if isinstance(data, (list, tuple)):
        return [plain(value) for value in data]
    if hasattr(data, "tolist"):
        return plain(data.tolist())
    return None if isinstance(data, float) and not math.isfinite(data) else data


def wilson_interval(share: float, samples: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share. Unlike the bootstrap's it has a width where all are right or all wrong.

    >>> [round(end, 4) for end in wilson_interval(0.5, 10)]
    [0.2366, 0.7634]
    """
    z = 1.959964  # not from scipy.stats, whose import takes longer than an evaluation
    centre, margin = share + z**2 / (2 * samples), z * math.sqrt(share * (1 - share) / samples + z**2 / (4 * samples**2))
    return max((centre - margin) / (1 + z**2 / samples), 0.0), min((centre + margin) / (1 + z**2 / samples), 1.0)


def percentiles(values: Tensor) -> tuple[float, float]:
    """Ends of the central 95 % of some values."""
    low, high = values.quantile(values.new_tensor([0.025, 0.975])).tolist()
    return low, high
