"""Metrics: pure functions, and streaming classes of the same name that resolve on first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rankmixup.metrics import functions
from rankmixup.metrics.functions import *  # noqa: F403

if TYPE_CHECKING:
    from rankmixup.metrics.streaming import *  # noqa: F403
    from rankmixup.metrics.streaming_ranked import *  # noqa: F403

_SUMS: tuple[str, ...] = ("Accuracy", "BrierScore", "ClasswiseCalibrationError", "DebiasedCalibrationError", "ExpectedCalibrationError")
_SUMS += ("LongTailMetrics", "MaximumCalibrationError", "NegativeLogLikelihood", "OverconfidenceError", "SmoothCalibrationError")
_RANKED = ("AURC", "AdaptiveCalibrationError", "CorrectnessAUROC", "ExcessAURC", "KSCalibrationError", "OODDetection")
_STREAMING = dict.fromkeys((*_SUMS, "UnderconfidenceError"), "streaming") | dict.fromkeys(_RANKED, "streaming_ranked")
__all__ = [*functions.__all__, *_STREAMING]


def __getattr__(name: str) -> Any:
    if name in _STREAMING:
        return getattr(import_module(f"rankmixup.metrics.{_STREAMING[name]}"), name)
    raise AttributeError(f"module 'rankmixup.metrics' has no attribute {name!r}")
