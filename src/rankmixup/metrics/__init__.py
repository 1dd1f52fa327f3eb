"""Metrics: pure functions, and streaming classes of the same name that resolve on first use."""

from typing import TYPE_CHECKING, Any

from rankmixup.metrics.calibration import (
    adaptive_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    overconfidence_error,
    underconfidence_error,
)
from rankmixup.metrics.proper import accuracy, brier_score, negative_log_likelihood
from rankmixup.metrics.ranking import confidence_by_lambda
from rankmixup.metrics.suite import METRIC_KEYS, all_metrics
from rankmixup.metrics.uncertainty import NoiseFloor, ece_noise_floor

if TYPE_CHECKING:
    from rankmixup.metrics.streaming import (
        Accuracy,
        AdaptiveCalibrationError,
        ExpectedCalibrationError,
        MaximumCalibrationError,
        NegativeLogLikelihood,
        OverconfidenceError,
        UnderconfidenceError,
    )

__all__ = [
    "METRIC_KEYS",
    "Accuracy",
    "AdaptiveCalibrationError",
    "ExpectedCalibrationError",
    "MaximumCalibrationError",
    "NegativeLogLikelihood",
    "NoiseFloor",
    "OverconfidenceError",
    "UnderconfidenceError",
    "accuracy",
    "adaptive_calibration_error",
    "all_metrics",
    "brier_score",
    "confidence_by_lambda",
    "ece_noise_floor",
    "expected_calibration_error",
    "maximum_calibration_error",
    "negative_log_likelihood",
    "overconfidence_error",
    "underconfidence_error",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from rankmixup.metrics import streaming

        return getattr(streaming, name)
    raise AttributeError(f"module 'rankmixup.metrics' has no attribute {name!r}")
