"""Calibrators fitted after training, on held-out logits."""

from rankmixup.posthoc.temperature import FitReport, TemperatureScaling

__all__ = ["FitReport", "TemperatureScaling"]
