import json
import math

import numpy as np
import pytest
import torch

import rankmixup as rm
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import Scores
from rankmixup.evaluation.conditions import Condition, with_failures
from rankmixup.evaluation.evaluation import evaluate_scores
from rankmixup.evaluation.registry import METRICS
from rankmixup.evaluation.results import plain
from rankmixup.posthoc import CALIBRATORS
from tests.oracles import unchecked

FEW = {"replicates": 50}


LOGITS, LABELS = np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 0.0], [0.5, 0.0, 0.0]]), np.array([0, 1, 2])


def test_arrays_lists_and_tensors_give_the_same():
    one = rm.evaluate(LOGITS, LABELS, calibrate_on=(LOGITS, LABELS), ood={"far": LOGITS / 2}, **FEW)
    rows, places = LOGITS.tolist(), LABELS.tolist()
    listed = rm.evaluate(rows, places, calibrate_on=(rows, places), ood={"far": (LOGITS / 2).tolist()}, **FEW)
    logits, labels = torch.from_numpy(LOGITS), torch.from_numpy(LABELS)
    two = rm.evaluate(logits, labels, calibrate_on=(logits, labels), ood={"far": logits / 2}, **FEW)
    assert one.to_dict() == two.to_dict()
    assert listed.value("nll") == pytest.approx(one.value("nll"))
    assert one.value("accuracy") == pytest.approx(2 / 3)


def overconfident(rng, samples=400, classes=5, factor=3.0):
    """Labels drawn from the softmax of logits, and the logits times `factor`: the right temperature is `factor`."""
    logits = torch.randn(samples, classes, generator=rng, dtype=torch.float64) * 1.5
    labels = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
    return factor * logits, labels


def test_every_key_of_the_contract_in_its_order(rng):
    report = rm.evaluate(*overconfident(rng), **FEW).to_dict()
    assert list(report) == ["schema", "source", "n", "num_classes", "metrics", "calibration", "ood", "failed", "groups", "classes"]
    assert tuple(report["metrics"]) == tuple(METRICS)
    for key, entry in report["metrics"].items():
        assert set(entry) == {"value", "low", "high", "floor", "p_value", "verdict"}, key
    ece = report["metrics"]["ece"]
    assert ece["low"] <= ece["value"] <= ece["high"]
    assert set(ece["floor"]) == {"mean", "low", "high"}
    assert ece["verdict"] == "miscalibrated"
    assert report["metrics"]["accuracy"]["verdict"] is None


def test_scores_without_labels_are_not_evaluated():
    """Of which all were taken for class 0."""
    logits, labels = np.eye(3)[[0, 1, 2, 0] * 5] * 2.0, [0, 1, 2, 0] * 5
    for target, calibrate_on in ((None, None), (labels, (logits, None))):
        with unchecked(), pytest.raises(InvalidInput, match=r"target and the labels of calibrate_on must be class indices \[N\], got None"):
            rm.evaluate(logits, target, calibrate_on=calibrate_on, replicates=2)


def test_a_calibrated_model_is_not_called_miscalibrated_after_its_temperature_is_found(rng):
    logits, labels = overconfident(rng, 4000)
    report = rm.evaluate(logits[2000:], labels[2000:], calibrate_on=(logits[:2000], labels[:2000]), **FEW)
    assert report.calibration.parameters["temperature"] == pytest.approx(3, rel=0.1)
    assert report.value("ece", calibrated=True) < report.value("ece") / 3
    assert report.calibration.metrics["ece"].low is not None
    assert report.calibration.fitted_on == "calibrate_on"
    assert report.calibration.same_data is False
    assert "same data" not in str(report)


@pytest.mark.parametrize("name", [name for name in CALIBRATORS if not CALIBRATORS[name].binary])
def test_any_calibrator(name, rng):
    logits, labels = overconfident(rng, 600)
    report = rm.evaluate(logits[300:], labels[300:], calibrate_on=(logits[:300], labels[:300]), calibrate_with=name, **FEW)
    assert report.calibration.method == name
    assert set(report.calibration.metrics) == set(METRICS)
    assert report.value("nll", calibrated=True) < report.value("nll")
    json.dumps(report.to_dict(), allow_nan=False)


def test_the_objective_is_the_temperatures_alone(rng):
    logits, labels = overconfident(rng)
    report = rm.evaluate(logits, labels, calibrate_on=(logits, labels), objective="ece-grid", **FEW)
    assert report.calibration.objective == "ece-grid"
    with pytest.raises(InvalidInput, match="objective of VectorScaling must be 'nll', got 'ece-grid'"):
        rm.evaluate(logits, labels, calibrate_on=(logits, labels), objective="ece-grid", calibrate_with="vector", **FEW)
    with pytest.raises(InvalidInput, match="did you mean 'isotonic'"):
        rm.evaluate(logits, labels, calibrate_on=(logits, labels), calibrate_with="isotonik", **FEW)


def test_fitting_and_evaluating_on_the_same_data_is_said(rng):
    logits, labels = overconfident(rng)
    report = rm.evaluate(logits, labels, calibrate_on=(logits, labels), **FEW)
    assert report.to_dict()["calibration"]["same_data"] is True
    assert "Calibrated and evaluated on the same data" in " ".join(str(report).split())


def test_what_is_not_finite_is_null_in_json_and_trips_a_condition():
    probs = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.75, 0.25]], dtype=torch.float64)
    report = evaluate_scores(Scores(probs, torch.tensor([0, 1, 0]), from_logits=False), **FEW)
    assert math.isinf(report.value("nll"))
    assert report.to_dict()["metrics"]["nll"]["value"] is None
    json.dumps(report.to_dict(), allow_nan=False)
    assert with_failures(report, [Condition.parse("nll>1")]).failed == ("nll>1",)
    assert "inf" in str(report)


def test_undefined_metrics_are_null():
    report = rm.evaluate(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1]), **FEW)
    assert report.to_dict()["metrics"]["top5_accuracy"] is None  # two classes
    assert report.to_dict()["metrics"]["auroc_correct"] is None  # all right
    with pytest.raises(InvalidInput, match="metric 'top5_accuracy' must be one that was computed"):
        report.value("top5_accuracy")


def test_the_seed_decides_what_is_drawn_and_nothing_else(rng):
    logits, labels = overconfident(rng)
    first, again, other = (rm.evaluate(logits, labels, seed=seed, **FEW).metrics["nll"] for seed in (1, 1, 2))
    assert first == again
    assert first.value == other.value
    assert first.low != other.low


def test_plain_data():
    assert plain({1: (math.nan, torch.tensor([1.0, math.inf]), "a", None, True)}) == {"1": [None, [1.0, None], "a", None, True]}


def test_ood_scores_are_told_apart_by_name(rng):
    logits, labels = overconfident(rng)
    near, far = torch.randn(100, 5, generator=rng, dtype=torch.float64), torch.zeros(50, 5, dtype=torch.float64)
    ood = rm.evaluate(logits, labels, ood={"near": near, "far": far}, **FEW).to_dict()["ood"]
    assert list(ood) == ["near", "far"]
    assert (ood["far"]["n"], ood["far"]["score"]) == (50, "entropy")
    assert set(ood["far"]["metrics"]) == {"auroc", "aupr_in", "aupr_out", "fpr95"}
    assert ood["far"]["metrics"]["auroc"] == {"value": 1.0, "low": 1.0, "high": 1.0}  # nothing is less certain than a uniform softmax
    assert ood["near"]["metrics"]["auroc"]["low"] < ood["near"]["metrics"]["auroc"]["value"] < ood["near"]["metrics"]["auroc"]["high"]


def test_ood_requests_that_cannot_be_met(rng):
    logits, labels = overconfident(rng)
    with pytest.raises(InvalidInput, match="far and the test scores must have the same number of classes, got 4 and 5"):
        evaluate_scores(Scores(logits, labels), ood={"far": Scores(torch.zeros(3, 4), torch.zeros(3).long())}, **FEW)
    with pytest.raises(InvalidInput, match="energy must be computed from logits, got probabilities"):
        rm.evaluate(logits.softmax(1), labels, ood={"far": logits.softmax(1)}, score="energy", from_logits=False, **FEW)


def test_held_out_scores_must_have_the_same_classes(rng):
    logits, labels = overconfident(rng)
    with pytest.raises(InvalidInput, match="held-out and test scores must have the same number of classes, got 3 and 5"):
        evaluate_scores(Scores(logits, labels), Scores(logits[:, :3], labels.clamp(max=2)), **FEW)


def test_num_bins_are_those_of_histogram_binning(rng):
    logits, labels = overconfident(rng)
    for num_bins in (2, 20):
        report = rm.evaluate(logits, labels, calibrate_on=overconfident(rng), calibrate_with="histogram", num_bins=num_bins, **FEW)
        assert len(report.calibration.parameters["values"]) == num_bins
