"""Metrics: pure functions, and streaming classes of the same name that resolve on first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rankmixup.metrics.calibration import (
    adaptive_calibration_error,
    debiased_calibration_error,
    expected_calibration_error,
    ks_calibration_error,
    maximum_calibration_error,
    overconfidence_error,
    underconfidence_error,
)
from rankmixup.metrics.classwise import classwise_calibration_error
from rankmixup.metrics.longtail import class_groups, long_tail_metrics
from rankmixup.metrics.ood import ood_detection, ood_scores
from rankmixup.metrics.proper import accuracy, brier_score, negative_log_likelihood
from rankmixup.metrics.ranking import confidence_by_lambda, kendall_tau, violated_mixed_pairs, violated_raw_pairs
from rankmixup.metrics.selective import aurc, correctness_auroc, excess_aurc
from rankmixup.metrics.smooth import smooth_calibration_error

if TYPE_CHECKING:
    from rankmixup.metrics.streaming import *  # noqa: F403
    from rankmixup.metrics.streaming_ranked import *  # noqa: F403

__all__ = ["accuracy", "adaptive_calibration_error", "aurc", "brier_score", "class_groups", "classwise_calibration_error"]
__all__ += ["confidence_by_lambda", "correctness_auroc", "debiased_calibration_error", "excess_aurc", "expected_calibration_error"]
__all__ += ["kendall_tau", "ks_calibration_error", "long_tail_metrics", "maximum_calibration_error", "negative_log_likelihood"]
__all__ += ["ood_detection", "ood_scores", "overconfidence_error", "smooth_calibration_error", "underconfidence_error"]
__all__ += ["violated_mixed_pairs", "violated_raw_pairs"]

_SUMS: tuple[str, ...] = ("Accuracy", "BrierScore", "ClasswiseCalibrationError", "DebiasedCalibrationError", "ExpectedCalibrationError")
_SUMS += ("LongTailMetrics", "MaximumCalibrationError", "NegativeLogLikelihood", "OverconfidenceError", "SmoothCalibrationError")
_RANKED = ("AURC", "AdaptiveCalibrationError", "CorrectnessAUROC", "ExcessAURC", "KSCalibrationError", "OODDetection")
_STREAMING = dict.fromkeys((*_SUMS, "UnderconfidenceError"), "streaming") | dict.fromkeys(_RANKED, "streaming_ranked")
__all__ += _STREAMING


def __getattr__(name: str) -> Any:
    if name in _STREAMING:
        return getattr(import_module(f"rankmixup.metrics.{_STREAMING[name]}"), name)
    raise AttributeError(f"module 'rankmixup.metrics' has no attribute {name!r}")
