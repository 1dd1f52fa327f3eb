"""Contracts to test your own methods, mixers, metrics, calibrators and data sets with, the same that this library's keep. Needs pytest."""

import sys

import pytest

# So that a broken promise shows the values it was broken with; a module that is imported already is past rewriting.
for _name in ("calibrator_contract", "contracts", "dataset_contract", "method_contract", "metric_contract", "mixer_contract"):
    if f"{__name__}.{_name}" not in sys.modules:
        pytest.register_assert_rewrite(f"{__name__}.{_name}")

from rankmixup.testing.calibrator_contract import CalibratorContract  # noqa: E402
from rankmixup.testing.contracts import TinyNet, toy_batch, two_processes  # noqa: E402
from rankmixup.testing.dataset_contract import DatasetContract  # noqa: E402
from rankmixup.testing.method_contract import MethodContract  # noqa: E402
from rankmixup.testing.metric_contract import MetricContract, RegisteredMetricContract  # noqa: E402
from rankmixup.testing.mixer_contract import MixerContract  # noqa: E402

__all__ = ["CalibratorContract", "DatasetContract", "MethodContract", "MetricContract", "MixerContract", "RegisteredMetricContract"]
__all__ += ["TinyNet", "toy_batch", "two_processes"]
