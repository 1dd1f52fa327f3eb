"""Everything there is to say about one set of scores."""

import math
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankmixup import random
from rankmixup.errors import require
from rankmixup.metrics import all_metrics, ece_noise_floor
from rankmixup.posthoc import TemperatureScaling
from rankmixup.runs import Scores

__all__ = ["Evaluation", "evaluate", "evaluate_scores"]

Array = Tensor | NDArray[np.generic]
"""What comes from anywhere."""

KEYS = (
    *("accuracy", "top5_accuracy", "nll", "brier", "ece", "ece_l2", "mce", "aece", "classwise_ece", "classwise_ece_sum", "oe", "ue"),
    *("smooth_ece", "debiased_ece", "ks", "aurc", "eaurc", "auroc_correct"),
)
"""The contract's metric keys, in the order in which they are shown; what is not computed is null."""


@dataclass(frozen=True)
class Evaluation:
    """Metrics of one set of scores, before and after calibration. Fractions, as everywhere but in tables for people."""

    source: str
    n: int
    num_classes: int
    metrics: dict[str, dict[str, Any] | None]
    calibration: dict[str, Any] | None

    def to_dict(self) -> dict[str, Any]:
        """The JSON that `rankmixup evaluate --json` prints."""
        return _finite(
            {
                "schema": 1,
                "source": self.source,
                "n": self.n,
                "num_classes": self.num_classes,
                "metrics": self.metrics,
                "calibration": self.calibration,
                "ood": {},
                "failed": [],
            }
        )

    def value(self, key: str, *, calibrated: bool = False) -> float:
        """One metric's value."""
        require(not calibrated or self.calibration is not None, f"calibrated {key!r} needs calibrate_on, which was not given")
        metrics = self.calibration["metrics"] if calibrated and self.calibration else self.metrics
        entry = metrics.get(key)
        require(entry is not None, f"metric {key!r} must be one that was computed: {', '.join(k for k, v in metrics.items() if v)}")
        assert entry is not None
        return float(entry["value"])

    def __str__(self) -> str:
        from rankmixup.reports.tables import evaluation_table, to_text

        return to_text(evaluation_table(self))


def evaluate(
    logits: Array,
    target: Array,
    *,
    calibrate_on: tuple[Array, Array] | None = None,
    objective: Literal["nll", "ece-grid"] = "nll",
    num_bins: int = 15,
    from_logits: bool = True,
) -> Evaluation:
    """Metrics of test scores [N, K], and of the same scores after a temperature fitted on `calibrate_on=(logits, labels)`.

    Tensors or numpy arrays; with `from_logits=False` both are probabilities.

    >>> import torch
    >>> report = evaluate(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]))
    >>> report.value("accuracy")
    0.5
    """
    held_out = None if calibrate_on is None else _scores(*calibrate_on, from_logits)
    return evaluate_scores(_scores(logits, target, from_logits), held_out, objective=objective, num_bins=num_bins)


def _scores(scores: Array, target: Array, from_logits: bool) -> Scores:
    return Scores(torch.as_tensor(scores), torch.as_tensor(target), from_logits)


def _finite(value: Any) -> Any:
    """JSON has no infinity: an infinite NLL (a probability of 0 for what was right) is null there."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def evaluate_scores(
    test: Scores,
    held_out: Scores | None = None,
    *,
    source: str = "scores",
    fitted_on: str = "calibrate_on",
    objective: Literal["nll", "ece-grid"] = "nll",
    num_bins: int = 15,
) -> Evaluation:
    """As `evaluate`, for scores that know what they are."""
    calibration = None
    if held_out is not None:
        require(
            held_out.scores.shape[1] == test.scores.shape[1],
            f"held-out and test scores must have the same classes, got {held_out.scores.shape[1]} and {test.scores.shape[1]}",
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what there is to warn of is in `converged`, which the table shows
            scaling = TemperatureScaling(objective, num_bins).fit(held_out.logits, held_out.labels)
        assert scaling.report_ is not None
        calibration = {
            "method": "temperature",
            "objective": objective,
            "parameters": scaling.report_.parameters,
            "converged": scaling.report_.converged,
            "fitted_on": fitted_on,
            "metrics": _entries(Scores(scaling.transform(test.logits), test.labels), num_bins),
        }
    return Evaluation(source, len(test), test.scores.shape[1], _entries(test, num_bins), calibration)


def _entries(scores: Scores, num_bins: int) -> dict[str, dict[str, Any] | None]:
    values = all_metrics(scores.scores, scores.labels, num_bins=num_bins, from_logits=scores.from_logits)
    entries: dict[str, dict[str, Any] | None] = dict.fromkeys(KEYS)
    for key, value in values.items():
        entries[key] = {"value": value, "low": None, "high": None, "floor": None, "p_value": None, "verdict": None}
    floor = ece_noise_floor(scores.probs.amax(dim=1), values["ece"], random.stream(0, "noise floor"), num_bins=num_bins)
    verdict = "not distinguishable from calibrated" if floor.p_value >= 0.05 else "miscalibrated"
    ece = entries["ece"]
    assert ece is not None
    ece |= {"floor": {"mean": floor.mean, "low": floor.low, "high": floor.high}, "p_value": floor.p_value, "verdict": verdict}
    return entries
