"""Results as data: estimates, evaluations, comparisons and OOD detection; fractions, as everywhere but in tables for people."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rankmixup.errors import InvalidInput, require
from rankmixup.evaluation.estimates import Estimate as Estimate
from rankmixup.evaluation.estimates import Metrics as Metrics
from rankmixup.evaluation.estimates import NoiseFloor as NoiseFloor
from rankmixup.evaluation.estimates import percentiles as percentiles
from rankmixup.evaluation.estimates import plain as plain
from rankmixup.evaluation.estimates import wilson_interval as wilson_interval
from rankmixup.evaluation.scores import Scores
from rankmixup.metrics.ood import OODKind

if TYPE_CHECKING:
    from rankmixup.evaluation.acceptance import Acceptance
    from rankmixup.evaluation.classes import ClassResult
    from rankmixup.evaluation.groups import Grouping, GroupMetrics

Protocol = Literal["paper", "release"]
FileKind = Literal["html", "json", "csv", "latex", "markdown", "group-csv", "class-csv"]


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
    positive: "Positive | None" = None
    """The positive class after calibration, if there is one."""


@dataclass(frozen=True)
class Positive(_Fields):
    """One class against all others: class 1 of two classes, unless another was chosen."""

    index: int
    name: str | None
    frequency: float
    """Share of the samples that are of this class."""
    mean_probability: float
    metrics: Metrics
    """By key, each None where it is undefined:

    - `observed_over_expected`: samples of this class over the sum of their probabilities; below 1 it is predicted too often.
    - `intercept`: what is to be added to the log-odds of the class so that it is predicted as often as it occurs.
    - `slope` of the log-odds in a logistic regression on them; below 1 probabilities are too extreme.
    - `ece` of the probability of this class as a prediction of it.
    - `auroc`: chance that a sample of this class has a larger probability of it than one that is not.
    """
    p_value: float | None = None
    """Of the hypothesis that the probability is calibrated: the smallest one of the metrics, corrected for their number."""
    verdict: str | None = None

    @property
    def ece(self) -> float:
        """ECE of the probability of this class."""
        found = self.metrics["ece"]
        assert found is not None
        return found.value

    @property
    def auroc(self) -> float | None:
        """AUROC of the probability of this class; None if all samples are of one kind."""
        return None if (found := self.metrics["auroc"]) is None else found.value

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        return plain({**vars(self), "ece": self.ece, "auroc": self.auroc})

    @property
    def title(self) -> str:
        """For tables and figures."""
        return f"class {self.index}" + (f" ({self.name})" if self.name else "")


def all_metrics_of(found: "Evaluation | Calibration | GroupMetrics") -> Metrics:
    """Metrics by key; first those of the probability of the positive class, as `positive.ece`, if there is one."""
    positive = {f"positive.{key}": each for key, each in found.positive.metrics.items()} if found.positive else {}
    return {**positive, **found.metrics}


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
    groups: "dict[str, Grouping]" = field(default_factory=dict)
    """Groups of samples, by the name of each grouping."""
    positive: Positive | None = None
    """The positive class of two classes, or the one chosen with `positive=`."""
    acceptance: "Acceptance | None" = None
    """Which predictions to accept, if that was asked for with `accept_at=`."""
    runs: "dict[int, Evaluation]" = field(default_factory=dict, repr=False, compare=False)
    """The runs by their seed, where they are evaluated as one model."""

    @cached_property
    def classes(self) -> "tuple[ClassResult, ...]":
        """One result for each class, computed when first asked for; none where the scores are not kept or are of several runs."""
        from rankmixup.evaluation.classes import class_results

        return () if self.test is None or len(self.runs) > 1 else class_results(self.test, self.calibrated, self.num_bins)

    def to_dict(self) -> dict[str, Any]:
        """The JSON that `rankmixup evaluate --json` prints."""
        keys = ("source", "n", "num_classes", "metrics", "calibration", "ood", "failed", "groups", "classes")
        stamp: dict[str, Any] = {"protocol": self.protocol} if self.protocol == "release" else {}
        stamp |= {name: plain(found) for name in ("positive", "acceptance") if (found := getattr(self, name)) is not None}
        stamp |= {"seeds": list(self.runs)} if self.runs else {}
        return {"schema": 1, **{key: plain(getattr(self, key)) for key in keys}, **stamp}

    def value(self, key: str, *, calibrated: bool = False) -> float:
        """One metric's value."""
        require(not calibrated or self.calibration is not None, f"calibrated {key!r} needs calibrate_on, which was not given")
        metrics = all_metrics_of(self.calibration if calibrated and self.calibration else self)
        estimate = metrics.get(key)
        if estimate is None:
            raise InvalidInput(f"metric {key!r} must be one that was computed: {', '.join(k for k, v in metrics.items() if v)}")
        return estimate.value

    def save(self, path: str | Path, kind: FileKind | None = None) -> Path:
        """Write a report; without `kind` the suffix decides: .html, .json, .csv, .tex or .md.

        "group-csv" and "class-csv" are tables of the groups and of the classes.
        """
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

    def __neg__(self) -> "Difference":
        """The same difference, second minus first; the verdict, which is about the first, is left out."""
        return replace(self, value=-self.value, low=-self.high, high=-self.low, verdict=None)


@dataclass(frozen=True)
class Compared:
    """A metric of one model, and its difference to the baseline, which the baseline itself has not."""

    estimate: Estimate
    difference: Difference | None = None
    before: Estimate | None = None
    """The metric before calibration, where models are compared after it."""
    deviation: float | None = None
    """Standard deviation over the seeds of a model that is several runs."""

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        before = {"before": self.before.to_dict()} if self.before else {}
        deviation = {} if self.deviation is None else {"deviation": self.deviation}
        return {**self.estimate.to_dict(), "difference": plain(self.difference), **before, **deviation}


@dataclass(frozen=True)
class Comparison:
    """Several models on the same samples: each one's estimates, and their differences to the baseline."""

    metric: str
    baseline: str
    n: int
    num_classes: int
    models: dict[str, dict[str, Compared]]
    """By model and by metric key: the compared metrics, and accuracy."""
    calibration: dict[str, Calibration] | None = None
    """The calibrator of each model, where models are compared after calibration."""
    failed: tuple[str, ...] = ()
    """The conditions of `fail_if` that hold."""
    seeds: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Of each model that is several runs, their seeds: its estimates are means over them."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Keys of the compared metrics, in order."""
        return tuple(next(iter(self.models.values())))

    def to_dict(self) -> dict[str, Any]:
        """The JSON that `rankmixup compare --json` prints."""
        fits = {
            name: {key: value for key, value in vars(fit).items() if key not in ("metrics", "positive")}
            for name, fit in (self.calibration or {}).items()
        }
        data = {"schema": 1, **plain({**vars(self), "calibration": fits or None}), "metrics": list(self.metrics)}
        return data if self.seeds else {key: value for key, value in data.items() if key != "seeds"}

    def save(self, path: str | Path, kind: FileKind | None = None) -> Path:
        """Write the comparison; without `kind` the suffix decides: .html, .json, .csv, .tex or .md."""
        return _reports("comparison").write_comparison(self, Path(path), kind)

    def __str__(self) -> str:
        return _reports("tables").to_text(_reports("comparison").comparison_view(self))


def _reports(module: str) -> Any:
    """Reports render results and are a layer above: imported by name, and only when a result is shown."""
    return import_module(f"rankmixup.reports.{module}")
