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
    from rankmixup.metrics.streaming import (
        Accuracy,
        BrierScore,
        ClasswiseCalibrationError,
        DebiasedCalibrationError,
        ExpectedCalibrationError,
        MaximumCalibrationError,
        NegativeLogLikelihood,
        OverconfidenceError,
        SmoothCalibrationError,
        UnderconfidenceError,
    )
    from rankmixup.metrics.streaming_grouped import LongTailMetrics, OODDetection
    from rankmixup.metrics.streaming_ranked import AURC, AdaptiveCalibrationError, CorrectnessAUROC, ExcessAURC, KSCalibrationError

__all__ = [
    "AURC",
    "Accuracy",
    "AdaptiveCalibrationError",
    "BrierScore",
    "ClasswiseCalibrationError",
    "CorrectnessAUROC",
    "DebiasedCalibrationError",
    "ExcessAURC",
    "ExpectedCalibrationError",
    "KSCalibrationError",
    "LongTailMetrics",
    "MaximumCalibrationError",
    "NegativeLogLikelihood",
    "OODDetection",
    "OverconfidenceError",
    "SmoothCalibrationError",
    "UnderconfidenceError",
    "accuracy",
    "adaptive_calibration_error",
    "aurc",
    "brier_score",
    "class_groups",
    "classwise_calibration_error",
    "confidence_by_lambda",
    "correctness_auroc",
    "debiased_calibration_error",
    "excess_aurc",
    "expected_calibration_error",
    "kendall_tau",
    "ks_calibration_error",
    "long_tail_metrics",
    "maximum_calibration_error",
    "negative_log_likelihood",
    "ood_detection",
    "ood_scores",
    "overconfidence_error",
    "smooth_calibration_error",
    "underconfidence_error",
    "violated_mixed_pairs",
    "violated_raw_pairs",
]

_STREAMING = {
    "LongTailMetrics": "streaming_grouped",
    "OODDetection": "streaming_grouped",
    **dict.fromkeys(("AURC", "AdaptiveCalibrationError", "CorrectnessAUROC", "ExcessAURC", "KSCalibrationError"), "streaming_ranked"),
}
"""Where a streaming class lives, if not in `streaming`."""


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(f"rankmixup.metrics.{_STREAMING.get(name, 'streaming')}"), name)
    raise AttributeError(f"module 'rankmixup.metrics' has no attribute {name!r}")
