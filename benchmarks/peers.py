"""ECE of probabilities by other libraries: what a user would pick instead. Those that are not installed are left out."""

import contextlib
import warnings
from collections.abc import Callable

from torch import Tensor
from torchmetrics.functional.classification import multiclass_calibration_error

BINS = 15


def calibration_errors(probs: Tensor, target: Tensor) -> dict[str, Callable[[], object]]:
    classes = probs.shape[1]
    found: dict[str, Callable[[], object]] = {"torchmetrics": lambda: multiclass_calibration_error(probs, target, classes, BINS)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(ImportError):
            from netcal.metrics import ECE

            scores, labels = probs.numpy(), target.numpy()
            found["netcal"] = lambda: ECE(BINS).measure(scores, labels)
        with contextlib.suppress(ImportError):
            from torch_uncertainty.metrics.classification import CalibrationError

            def torch_uncertainty() -> object:
                metric = CalibrationError(task="multiclass", num_bins=BINS, num_classes=classes)
                metric.update(probs, target)
                return metric.compute()

            found["torch-uncertainty"] = torch_uncertainty
    return found
