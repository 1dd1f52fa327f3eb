"""The registry of metrics: everything that lists, computes, shows or compares metrics reads it."""

import math
import re
from collections.abc import Callable, ItemsView, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

from rankmixup import metrics
from rankmixup.errors import require, require_choice, require_flag, require_number, require_whole, shown, unknown_name
from rankmixup.registry import Registry

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Metric:
    """One metric of an evaluation."""

    key: str
    """Its name in JSON, tables for programs and conditions."""
    title: str
    """Its name in tables for people."""
    function: Callable[..., Any] | None = None
    """`function(scores, target)` returns the metric, or a tensor `[N]` whose mean it is."""
    streaming: str | None = None
    """The class in `rankmixup.metrics` that computes it batch by batch."""
    interval: Literal["wilson", "bootstrap", "inversion"] = "bootstrap"
    """How its confidence interval is made: Wilson's, bootstrap, or test inversion for what noise biases upwards."""
    floor: Literal["confidence", "labels"] | None = None
    """What calibrated models are simulated with: the confidence of each prediction, or all probabilities. None: it has no noise floor."""
    bins: Literal["width", "mass"] | None = None
    """The bins of confidence, of equal width or equal mass, whose gaps it is a norm of."""
    unit: Literal["%", ""] = "%"
    """Whether people are shown hundredths."""
    higher_is_better: bool = False
    most: float = 1.0
    """Its largest possible value."""
    least: float = 0.0
    """Its smallest possible value."""
    ideal: float | None = None
    """The best value, where neither larger nor smaller ones are better."""
    needs: Literal["logits", "probs"] = "logits"
    """What `function` takes."""
    min_classes: int = 1
    """With fewer classes it is not defined."""

    def better(self, first: float, second: float) -> bool:
        """Whether the first value is the better one."""
        return self.loss(first) < self.loss(second)

    def loss(self, value: float) -> float:
        """A number that is the smaller, the better the value is."""
        if self.ideal is not None:
            return abs(value - self.ideal)
        return -value if self.higher_is_better else value


class _Metrics(Registry[Metric]):
    """Keeps the order in which metrics are shown."""

    def __iter__(self) -> Iterator[str]:
        self._load_plugins()
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self.items())

    def items(self) -> ItemsView[str, Metric]:
        """Keys and metrics, in order."""
        return {key: self[key] for key in self}.items()

    def summaries(self) -> dict[str, str]:
        """Key to one line about the metric."""
        way = {True: "higher", False: "lower"}
        return {key: f"{each.title}, 0 to {each.most:g}, {way[each.higher_is_better]} is better" for key, each in self.items()}


_top5, _ece, _classwise = partial(metrics.accuracy, top_k=5), metrics.expected_calibration_error, metrics.classwise_calibration_error
_classwise_sum = partial(_classwise, aggregate="sum")
_error = partial(Metric, interval="inversion", floor="confidence")
_BUILT_IN = (
    Metric("accuracy", "accuracy", metrics.accuracy, "Accuracy", "wilson", higher_is_better=True),
    Metric("top5_accuracy", "top-5 accuracy", _top5, "Accuracy", "wilson", higher_is_better=True, min_classes=5),
    Metric("nll", "NLL", metrics.negative_log_likelihood, "NegativeLogLikelihood", unit="", most=math.inf),
    Metric("brier", "Brier", metrics.brier_score, "BrierScore", unit="", most=2.0),
    _error("ece", "ECE", _ece, "ExpectedCalibrationError", bins="width"),
    _error("ece_l2", "ECE, L2", partial(_ece, norm="l2"), "ExpectedCalibrationError", bins="width"),
    _error("mce", "MCE", metrics.maximum_calibration_error, "MaximumCalibrationError", bins="width"),
    _error("aece", "AECE", metrics.adaptive_calibration_error, "AdaptiveCalibrationError", bins="mass"),
    _error("classwise_ece", "classwise ECE", _classwise, "ClasswiseCalibrationError", floor="labels"),
    _error("classwise_ece_sum", "classwise sum", _classwise_sum, "ClasswiseCalibrationError", floor="labels", most=2.0),
    _error("oe", "OE", metrics.overconfidence_error, "OverconfidenceError", bins="width"),
    _error("ue", "UE", metrics.underconfidence_error, "UnderconfidenceError", bins="width"),
    _error("smooth_ece", "smooth ECE", metrics.smooth_calibration_error, "SmoothCalibrationError"),
    _error("debiased_ece", "debiased ECE", metrics.debiased_calibration_error, "DebiasedCalibrationError"),
    _error("ks", "KS error", metrics.ks_calibration_error, "KSCalibrationError"),
    Metric("aurc", "AURC", metrics.aurc, "AURC"),
    Metric("eaurc", "E-AURC", metrics.excess_aurc, "ExcessAURC"),
    Metric("auroc_correct", "AUROC, correct", metrics.correctness_auroc, "CorrectnessAUROC", higher_is_better=True),
)
PASS_KEYS = tuple(metric.key for metric in _BUILT_IN)
"""Metrics that one pass over the scores computes together; the functions of all others are called one by one."""
METRICS = _Metrics("metric", "rankmixup.metrics")
"""Every metric of an evaluation by key, in the order in which they are shown."""
for _metric in _BUILT_IN:
    METRICS.register(_metric.key)(_metric)
_DETECTION = {"auroc": "AUROC", "aupr_in": "AUPR, in", "aupr_out": "AUPR, out", "fpr95": "FPR at 95 %"}
DETECTION_METRICS = {key: Metric(key, title, higher_is_better=key != "fpr95") for key, title in _DETECTION.items()}
"""Every metric of out-of-distribution detection."""
_recalibration = partial(Metric, unit="", most=math.inf, least=-math.inf)
_POSITIVE = (
    Metric("positive.observed_over_expected", "observed/expected", unit="", most=math.inf, ideal=1.0),
    _recalibration("positive.intercept", "intercept", ideal=0.0),
    _recalibration("positive.slope", "slope", ideal=1.0),
    Metric("positive.ece", "ECE, positive"),
    Metric("positive.auroc", "AUROC, positive", higher_is_better=True),
)
POSITIVE_METRICS = {metric.key: metric for metric in _POSITIVE}
"""Every metric of the probability of the positive class."""


def metric_named(key: str) -> Metric:
    """The metric of this key, of any kind."""
    others = DETECTION_METRICS | POSITIVE_METRICS
    if key not in METRICS and key not in others:
        raise unknown_name("metric", key, (*METRICS, *others))
    return METRICS[key] if key in METRICS else others[key]


def register_metric(
    key: str,
    *,
    title: str | None = None,
    unit: Literal["%", ""] = "%",
    higher_is_better: bool = False,
    most: float = 1.0,
    needs: Literal["logits", "probs"] = "probs",
    min_classes: int = 2,
) -> Callable[[Function], Function]:
    """Decorator that adds a metric to every evaluation, with a bootstrap interval.

    The function takes scores `[N, K]` in float64 and class indices `[N]`, and returns the metric, or a tensor `[N]` whose mean it is. The
    second kind is much faster: its bootstrap needs no further call.

    Args:
        key: Its name in JSON and in conditions: letters, digits, `_` and `-`.
        title: Its name in tables; the key unless given.
        unit: `"%"` to show it in percent, `""` to show it as it is.
        higher_is_better: Which way a comparison calls better.
        most: Its largest possible value; the smallest is 0.
        needs: Whether the function takes probabilities or logits.
        min_classes: With fewer classes it is not computed.

    Returns:
        A decorator that returns the function itself.
    """
    require(isinstance(key, str) and re.fullmatch(r"[A-Za-z][\w-]*", key, re.ASCII) is not None, f"key must be a name, got {shown(key)}")
    require(title is None or isinstance(title, str), f"title must be a text, got {shown(title)}")
    require_choice("unit", unit, ("%", ""))
    require_flag("higher_is_better", higher_is_better)
    require_number("most", most)
    require(most > 0, f"most must be above 0, got {most}")
    require_choice("needs", needs, ("logits", "probs"))
    require_whole("min_classes", min_classes, least=1)

    def decorate(function: Function) -> Function:
        require(callable(function), f"metric {key!r} must be a function, got {shown(function)}")
        more: dict[str, Any] = {"unit": unit, "higher_is_better": higher_is_better, "most": most, "needs": needs}
        METRICS.register(key)(Metric(key, title or key, function, min_classes=min_classes, **more))
        return function

    return decorate
