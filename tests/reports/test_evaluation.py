import json

import numpy as np
import pytest
import torch

import rankmixup as rm
from rankmixup.errors import InvalidInput
from rankmixup.metrics import METRIC_KEYS
from rankmixup.reports.evaluation import KEYS

LOGITS, LABELS = np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 0.0], [0.5, 0.0, 0.0]]), np.array([0, 1, 2])


def test_arrays_and_tensors_give_the_same():
    one = rm.evaluate(LOGITS, LABELS, calibrate_on=(LOGITS, LABELS))
    two = rm.evaluate(torch.from_numpy(LOGITS), torch.from_numpy(LABELS), calibrate_on=(torch.from_numpy(LOGITS), torch.from_numpy(LABELS)))
    assert one.to_dict() == two.to_dict()
    assert one.value("accuracy") == pytest.approx(2 / 3)
    assert "ECE" in str(one)


def test_every_metric_that_is_computed_has_its_key():
    report = rm.evaluate(LOGITS, LABELS)
    assert list(report.metrics) == list(KEYS)
    assert {key for key, entry in report.metrics.items() if entry is not None} == set(METRIC_KEYS)


def test_infinity_is_null_in_json():
    probs = np.array([[1.0, 0.0, 0.0], [0.5, 0.25, 0.25]])
    report = rm.evaluate(probs, np.array([1, 0]), from_logits=False, calibrate_on=(probs, np.array([1, 0])))
    assert report.value("nll") == float("inf")
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["metrics"]["nll"]["value"] is None


def test_bad_input():
    with pytest.raises(InvalidInput, match="needs calibrate_on"):
        rm.evaluate(LOGITS, LABELS).value("ece", calibrated=True)
    with pytest.raises(InvalidInput, match="must be one that was computed"):
        rm.evaluate(LOGITS, LABELS).value("aurc")
    with pytest.raises(InvalidInput, match="must have the same classes, got 2 and 3"):
        rm.evaluate(LOGITS, LABELS, calibrate_on=(LOGITS[:, :2], np.array([0, 1, 0])))
