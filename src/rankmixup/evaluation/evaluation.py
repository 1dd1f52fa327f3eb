"""Everything there is to say about one set of scores."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankmixup import random
from rankmixup.errors import require, require_whole, shown
from rankmixup.evaluation.detection import detect_all
from rankmixup.evaluation.registry import METRICS
from rankmixup.evaluation.resampling import check_replicates
from rankmixup.evaluation.scores import Scores
from rankmixup.evaluation.uncertainty import metric_uncertainty
from rankmixup.metrics.calibration import check_num_bins
from rankmixup.metrics.ood import OODKind
from rankmixup.ops import as_tensor
from rankmixup.posthoc import CALIBRATORS, Calibrator, TemperatureScaling

__all__ = ["Evaluation", "evaluate", "evaluate_scores", "metric_entries", "plain"]

Array = Tensor | NDArray[np.generic]
"""What comes from anywhere."""

Objective = Literal["nll", "ece-grid"]
Protocol = Literal["paper", "release"]
FileKind = Literal["html", "json", "csv", "latex", "markdown"]
Metrics = dict[str, dict[str, Any] | None]


@dataclass(frozen=True)
class Evaluation:
    """Metrics of one set of scores, before and after calibration. Fractions, as everywhere but in tables for people."""

    source: str
    n: int
    num_classes: int
    metrics: Metrics
    """For each key value, low, high, floor, p_value and verdict; None for what is not defined on these scores."""
    calibration: dict[str, Any] | None = None
    ood: dict[str, dict[str, Any]] = field(default_factory=dict)
    failed: tuple[str, ...] = ()
    """The conditions of `--fail-if` that tripped."""
    test: Scores | None = field(default=None, repr=False, compare=False)
    """The scores themselves, from which figures are drawn; so are the next two."""
    calibrated: Scores | None = field(default=None, repr=False, compare=False)
    ood_scores: dict[str, Scores] = field(default_factory=dict, repr=False, compare=False)
    num_bins: int = 15
    protocol: Protocol = "paper"
    """`release` where, as by the paper's release, test samples were selected and fitted on."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON that `rankmixup evaluate --json` prints."""
        return {
            "schema": 1,
            "source": self.source,
            "n": self.n,
            "num_classes": self.num_classes,
            "metrics": plain(self.metrics),
            "calibration": plain(self.calibration),
            "ood": plain(self.ood),
            "failed": list(self.failed),
            **({"protocol": self.protocol} if self.protocol == "release" else {}),
        }

    def value(self, key: str, *, calibrated: bool = False) -> float:
        """One metric's value."""
        require(not calibrated or self.calibration is not None, f"calibrated {key!r} needs calibrate_on, which was not given")
        metrics = self.calibration["metrics"] if calibrated and self.calibration else self.metrics
        entry = metrics.get(key)
        require(entry is not None, f"metric {key!r} must be one that was computed: {', '.join(k for k, v in metrics.items() if v)}")
        assert entry is not None
        return float(entry["value"])

    def save(self, path: str | Path, kind: FileKind | None = None) -> Path:
        """Write a report; without `kind` the suffix says which: .html, .json, .csv, .tex or .md."""
        return _reports("files").write_evaluation(self, Path(path), kind)

    def __str__(self) -> str:
        tables = _reports("tables")
        return tables.to_text(tables.evaluation_table(self))


def _reports(module: str) -> Any:
    """What renders results: a layer above this one, so looked up by name, and only when a result is asked to show itself."""
    return import_module(f"rankmixup.reports.{module}")


def evaluate(
    logits: Array,
    target: Array,
    *,
    calibrate_on: tuple[Array, Array] | None = None,
    objective: Objective = "nll",
    num_bins: int = 15,
    from_logits: bool = True,
    calibrate_with: str = "temperature",
    ood: Mapping[str, Array] | None = None,
    score: OODKind = "entropy",
    replicates: int = 1000,
    seed: int = 0,
    source: str = "scores",
) -> Evaluation:
    """Metrics of test scores with intervals and noise floors, and of the same scores after calibration on `calibrate_on=(logits, labels)`.

    Tensors or numpy arrays; with `from_logits=False` all of them are probabilities. `ood` names scores of out-of-distribution samples
    to be told from the test samples by `score`. `num_bins`, 1 to 1,000, are the bins of ECE and its kin, and of histogram binning.

    >>> import torch
    >>> report = evaluate(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]))
    >>> report.value("accuracy")
    0.5
    """
    require(
        calibrate_on is None or (isinstance(calibrate_on, tuple | list) and len(calibrate_on) == 2), "calibrate_on must be (logits, labels)"
    )
    require(ood is None or isinstance(ood, Mapping), f"ood must name scores, as in {{'svhn': logits}}, got {shown(ood)}")
    return evaluate_scores(
        _scores(logits, target, from_logits),
        None if calibrate_on is None else _scores(*calibrate_on, from_logits),
        source=source,
        calibrate_with=calibrate_with,
        objective=objective,
        # Labels of samples of no class have no meaning and are never looked at.
        ood={name: _unlabelled(each, from_logits) for name, each in (ood or {}).items()},
        score=score,
        num_bins=num_bins,
        replicates=replicates,
        seed=seed,
    )


def _unlabelled(scores: Array, from_logits: bool) -> Scores:
    scores = as_tensor("scores", scores)
    return Scores(scores, torch.zeros(scores.shape[:1], dtype=torch.long, device=scores.device), from_logits)


def _scores(scores: Array, target: Array, from_logits: bool) -> Scores:
    return Scores(as_tensor("scores", scores), as_tensor("labels", target), from_logits)


def evaluate_scores(
    test: Scores,
    held_out: Scores | None = None,
    *,
    source: str = "scores",
    fitted_on: str = "calibrate_on",
    calibrate_with: str = "temperature",
    objective: Objective = "nll",
    ood: Mapping[str, Scores] | None = None,
    score: OODKind = "entropy",
    num_bins: int = 15,
    replicates: int = 1000,
    seed: int = 0,
    protocol: Protocol = "paper",
) -> Evaluation:
    """As `evaluate`, for scores that know what they are."""
    check_replicates(replicates)
    check_num_bins(num_bins)
    seed = require_whole("seed", seed)
    classes = test.scores.shape[1]
    calibrated, calibration = None, None
    if held_out is not None:
        others = held_out.scores.shape[1]
        require(others == classes, f"held-out and test scores must have the same number of classes, got {others} and {classes}")
        calibrator = _calibrator(calibrate_with, objective, num_bins).fit(held_out.logits, held_out.labels, split=fitted_on)
        calibrated = Scores(calibrator.transform(test.logits.double()), test.labels)
        report = calibrator.report_
        calibration = {
            "method": report.method,
            "objective": report.objective,
            "parameters": report.parameters,
            "converged": report.converged,
            "fitted_on": fitted_on,
            "samples": report.samples,
            "same_data": calibrator.fitted_on_same(test.logits),
            "verdict": report.verdict,
            "metrics": metric_entries(calibrated, num_bins=num_bins, replicates=replicates, seed=seed),
        }
    detection = detect_all(test, ood or {}, score, replicates=replicates, seed=seed)
    metrics = metric_entries(test, num_bins=num_bins, replicates=replicates, seed=seed)
    shown = (metrics, calibration, detection, ())
    return Evaluation(source, len(test), classes, *shown, test, calibrated, dict(ood or {}), num_bins, protocol)


def metric_entries(scores: Scores, *, num_bins: int = 15, replicates: int = 1000, seed: int = 0) -> Metrics:
    """Value, interval, floor, p-value and verdict of each metric; None where it is not defined on these scores."""
    rng = random.stream(seed, "uncertainty")
    found = metric_uncertainty(
        scores.scores, scores.labels, from_logits=scores.from_logits, num_bins=num_bins, replicates=replicates, rng=rng
    )
    return {key: _entry(found[key]) if key in found else None for key in METRICS}


def _calibrator(name: str, objective: Objective, num_bins: int) -> Calibrator:
    kind = CALIBRATORS[name]
    if issubclass(kind, TemperatureScaling):
        return kind(objective, num_bins=num_bins)
    require(objective == "nll", f"objective must be 'nll' for any calibrator but temperature, got {objective!r} for {name!r}")
    calibrator = kind()
    calibrator.num_bins = num_bins
    return calibrator


def _entry(found: Any) -> dict[str, Any]:
    floor = found.floor and {"mean": found.floor.mean, "low": found.floor.low, "high": found.floor.high}
    head = {"value": found.value, "low": found.low, "high": found.high}
    return {**head, "floor": floor, "p_value": found.p_value, "verdict": found.verdict}


def plain(data: Any) -> Any:
    """JSON data; null for what is no finite number."""
    if isinstance(data, Mapping):
        return {str(key): plain(value) for key, value in data.items()}
    if dataclasses.is_dataclass(data) and not isinstance(data, type):
        return plain(vars(data))
    if isinstance(data, (list, tuple)):
        return [plain(value) for value in data]
    if hasattr(data, "tolist"):
        return plain(data.tolist())
    return None if isinstance(data, float) and not math.isfinite(data) else data
