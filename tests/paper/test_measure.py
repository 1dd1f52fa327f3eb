"""Metrics of stored runs, against the functions that everything else uses."""

import math

import pytest
import torch

from rankmixup.evaluation import Scores, all_metrics
from rankmixup.experiments import Cell
from rankmixup.metrics import ood_detection, ood_scores
from rankmixup.paper.measure import Measurements
from rankmixup.posthoc import TemperatureScaling
from rankmixup.runs import Run
from tests.paper.stored import store


@pytest.fixture
def cell() -> Cell:
    return Cell((Run("ce", seed=0), Run("ce", seed=1)))


def test_values_are_those_of_the_stored_logits_before_and_after_each_temperature(tmp_path, cell):
    stored = store(tmp_path, cell.runs[0], 3.0)
    test, val = stored.scores("test"), stored.scores("val")
    measurements = Measurements(tmp_path)
    assert measurements.values(cell, "ece") == {0: pytest.approx(all_metrics(test.logits, test.labels, from_logits=True)["ece"])}
    for objective in ("nll", "ece-grid"):
        scaling = TemperatureScaling(objective).fit(val.logits, val.labels)
        expected = all_metrics(scaling.transform(test.logits), test.labels, from_logits=True)
        assert measurements.values(cell, "aece", objective)[0] == pytest.approx(expected["aece"])
        assert measurements.values(cell, "accuracy", objective)[0] == expected["accuracy"]


def test_unfinished_runs_have_no_values(tmp_path, cell):
    measurements = Measurements(tmp_path)
    assert measurements.values(cell, "ece") == {}
    assert measurements.estimates(cell, "ece") == []
    assert measurements.curve(cell) == []
    assert measurements.cost(cell.runs[0]) is None


def test_intervals_hold_their_value_and_chance_lies_below_a_bad_error(tmp_path, cell):
    for run in cell.runs:
        store(tmp_path, run, 4.0)
    measurements = Measurements(tmp_path, replicates=100)
    for metric in ("accuracy", "ece", "aece", "oe"):
        found = measurements.estimates(cell, metric)
        assert len(found) == 2
        assert all(each.low <= each.value <= each.high for each in found), metric
        assert all(each.floor is None if metric == "accuracy" else each.floor.mean < each.value for each in found), metric
    assert measurements.cost(cell.runs[0]) == (36.0, "a machine, torch 9")


def test_detection_of_unknown_samples_and_its_interval_by_delong(tmp_path):
    cell = Cell((Run("ce"),), "svhn")
    stored = store(tmp_path, cell.runs[0], unknown="svhn")
    known = ood_scores(stored.scores("test").logits)
    unknown = ood_scores(Scores.read(stored.predictions_path("ood-svhn"), labelled=False).logits)
    (found,) = Measurements(tmp_path).estimates(cell, "auroc")
    assert found.value == pytest.approx(ood_detection(known, unknown)["auroc"])
    wins = (unknown[:, None] > known).double() + 0.5 * (unknown[:, None] == known).double()
    error = math.sqrt(wins.mean(dim=1).var(correction=0) / len(unknown) + wins.mean(dim=0).var(correction=0) / len(known))
    assert found.high - found.low == pytest.approx(2 * 1.96 * error)
    assert Measurements(tmp_path).values(Cell(cell.runs, "cifar100"), "auroc") == {}


def test_the_hypothesis_is_measured_on_mixed_samples(tmp_path, cell):
    stored = store(tmp_path, cell.runs[0])
    measurements = Measurements(tmp_path)
    assert measurements.values(cell, "lambda_correlation")[0] == pytest.approx(1)  # confidence there rises with lambda
    *by_lambda, raw = measurements.curve(cell)
    assert len(by_lambda) == 10
    assert by_lambda == sorted(by_lambda)
    assert raw == pytest.approx(stored.scores("test").probs.amax(dim=1).mean().item())
    assert measurements.values(cell, "raw_minus_mixed")[0] == pytest.approx(raw - torch.tensor(by_lambda).mean().item(), abs=1e-3)


@pytest.mark.parametrize("name", ["run.json", "result.json", "env.json", "predictions/test.npz", "predictions/mixed.npz"])
def test_a_damaged_run_is_noted_and_the_others_are_measured(name, tmp_path, cell):
    bad, good = (store(tmp_path, run, 3.0) for run in cell.runs)
    (bad.path / name).write_bytes(b"[" * 100_000)
    measurements = Measurements(tmp_path, replicates=10)
    for metric in ("ece", "lambda_correlation"):
        assert set(measurements.values(cell, metric)) >= {good.run.seed}
        assert 1 <= len(measurements.estimates(cell, metric)) <= 2
    assert len(measurements.curve(cell)) == 11
    assert measurements.cost(good.run) is not None
    measurements.cost(bad.run)
    assert list(measurements.damaged) == [bad.run.id]
    assert name in measurements.damaged[bad.run.id]
