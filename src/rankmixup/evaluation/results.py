"""Results as data: estimates, evaluations, comparisons and OOD detection; fractions, as everywhere but in tables for people."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple

from torch import Tensor

from rankmixup.errors import InvalidInput, require
from rankmixup.evaluation.scores import Scores
from rankmixup.metrics.ood import OODKind

Protocol = Literal["paper", "release"]
FileKind = Literal["html", "json", "csv", "latex", "markdown"]


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


class _Fields:
    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        return plain(vars(self))


@dataclass(frozen=True)
class Calibration(_Fields):
    """A calibrator that was fitted, and the metrics of the scores after it."""

    method: str
    objective: str
    parameters: dict[str, Any]
    converged: bool
    fitted_on: str
    """Name of the samples that it was fitted on."""
    samples: int
    same_data: bool
    """Whether these are the samples that it was evaluated on."""
    verdict: str
    metrics: Metrics


@dataclass(frozen=True)
class Detection:
    """How well a score separates one set of out-of-distribution samples from the test samples."""

    n: int
    score: OODKind
    metrics: dict[str, Estimate]
    shared_classes: tuple[str, ...] = ()
    """Classes of the set that the model was trained on, so that not all samples are unknown."""

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        metrics = {key: estimate.interval_dict() for key, estimate in self.metrics.items()}
        shared = {"shared_classes": list(self.shared_classes)} if self.shared_classes else {}
        return {"n": self.n, "score": self.score, "metrics": metrics, **shared}


@dataclass(frozen=True)
class Evaluation:
    """Metrics of one set of scores, before and after calibration."""

    source: str
    n: int
    num_classes: int
    metrics: Metrics
    calibration: Calibration | None = None
    ood: dict[str, Detection] = field(default_factory=dict)
    failed: tuple[str, ...] = ()
    """The conditions of `--fail-if` that hold."""
    test: Scores | None = field(default=None, repr=False, compare=False)
    """The scores themselves, from which figures are drawn; so are the next two."""
    calibrated: Scores | None = field(default=None, repr=False, compare=False)
    ood_scores: dict[str, Scores] = field(default_factory=dict, repr=False, compare=False)
    num_bins: int = 15
    protocol: Protocol = "paper"
    """`release` where, as in the paper's release, an epoch was selected and a temperature fitted on test samples."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON that `rankmixup evaluate --json` prints."""
        keys = ("source", "n", "num_classes", "metrics", "calibration", "ood", "failed")
        stamp = {"protocol": self.protocol} if self.protocol == "release" else {}
        return {"schema": 1, **{key: plain(getattr(self, key)) for key in keys}, **stamp}

    def value(self, key: str, *, calibrated: bool = False) -> float:
        """One metric's value."""
        require(not calibrated or self.calibration is not None, f"calibrated {key!r} needs calibrate_on, which was not given")
        metrics = self.calibration.metrics if calibrated and self.calibration else self.metrics
        estimate = metrics.get(key)
        if estimate is None:
            raise InvalidInput(f"metric {key!r} must be one that was computed: {', '.join(k for k, v in metrics.items() if v)}")
        return estimate.value

    def save(self, path: str | Path, kind: FileKind | None = None) -> Path:
        """Write a report; without `kind` the suffix decides: .html, .json, .csv, .tex or .md."""
        return _reports("files").write_evaluation(self, Path(path), kind)

    def __str__(self) -> str:
        return _reports("tables").to_text(_reports("tables").evaluation_table(self))


@dataclass(frozen=True)
class Difference(_Fields):
    """The difference of a metric between two models on the same samples, first minus second."""

    value: float
    low: float
    high: float
    p_value: float
    """Two-sided, of the hypothesis that the models do not differ."""
    test: str = "paired bootstrap"
    p_holm: float | None = None
    """Corrected over all differences of a comparison."""
    verdict: str | None = None


@dataclass(frozen=True)
class Compared:
    """A metric of one model, and its difference to the baseline, which the baseline itself has not."""

    estimate: Estimate
    difference: Difference | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        return {**self.estimate.to_dict(), "difference": plain(self.difference)}


@dataclass(frozen=True)
class Comparison:
    """Several models on the same samples: each one's estimates, and their differences to the baseline."""

    metric: str
    baseline: str
    n: int
    num_classes: int
    models: dict[str, dict[str, Compared]]
    """By model and by metric key: the compared metric, and accuracy."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON that `rankmixup compare --json` prints."""
        return {"schema": 1, **plain(vars(self))}

    def __str__(self) -> str:
        return _reports("tables").to_text(_reports("tables").comparison_table(self))


def _reports(module: str) -> Any:
    """Reports render results and are a layer above: imported by name, and only when a result is shown."""
    return import_module(f"rankmixup.reports.{module}")


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
