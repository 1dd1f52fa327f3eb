"""From a run to a product: a trained, calibrated model that predicts, is evaluated on new data, and is exported."""

from rankmixup.deploy.loading import load
from rankmixup.deploy.model import CalibratedModel, Origin

__all__ = ["CalibratedModel", "Origin", "load"]
