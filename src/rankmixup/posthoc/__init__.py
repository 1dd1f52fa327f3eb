"""Calibrators fitted after training, on held-out logits."""

from rankmixup.posthoc.base import CALIBRATORS, CalibrationModule, Calibrator, Fitted, register_calibrator
from rankmixup.posthoc.ensemble import EnsembleTemperatureScaling
from rankmixup.posthoc.histogram import HistogramBinning
from rankmixup.posthoc.isotonic import IsotonicCalibration
from rankmixup.posthoc.platt import PlattScaling
from rankmixup.posthoc.report import FitReport
from rankmixup.posthoc.temperature import TemperatureScaling
from rankmixup.posthoc.vector import VectorScaling

__all__ = ["CALIBRATORS", "CalibrationModule", "Calibrator", "EnsembleTemperatureScaling", "FitReport", "Fitted", "HistogramBinning"]
__all__ += ["IsotonicCalibration", "PlattScaling", "TemperatureScaling", "VectorScaling", "register_calibrator"]
