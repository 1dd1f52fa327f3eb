"""What figures draw, against definitions and other functions."""

import math

import pytest
import torch
from scipy import stats

from rankmixup.errors import InvalidInput
from rankmixup.evaluation import Scores
from rankmixup.evaluation.diagrams import confidence_histogram, lambda_curve, reliability, score_densities, temperature_curve
from rankmixup.metrics import expected_calibration_error, negative_log_likelihood
from tests.reports.entries import make_scores


def one_bin(count: int, confidence: float, correct: int) -> Scores:
    """Two classes; equally confident predictions of the first, of which some are right."""
    probs = torch.tensor([[confidence, 1 - confidence]] * count, dtype=torch.float64)
    return Scores(probs, (torch.arange(count) >= correct).long(), from_logits=False)


@pytest.mark.parametrize(("count", "confidence"), [(1, 0.6), (7, 0.9), (50, 0.53), (20, 1.0)])
def test_a_calibrated_model_lies_in_its_range_95_percent_of_the_time(count, confidence):
    found = reliability([one_bin(count, confidence, 1)], 1)
    low, high = (round(bound.item() * count) for bound in (found.calibrated_low, found.calibrated_high))
    chance = [math.comb(count, k) * confidence**k * (1 - confidence) ** (count - k) for k in range(count + 1)]
    assert sum(chance[low : high + 1]) >= 0.95
    assert sum(chance[:low]) <= 0.025
    assert sum(chance[high + 1 :]) <= 0.025


@pytest.mark.parametrize(("count", "correct"), [(1, 0), (1, 1), (10, 3), (500, 500), (500, 0), (500, 123)])
def test_the_interval_of_an_accuracy_is_clopper_and_pearsons(count, correct):
    found = reliability([one_bin(count, 0.8, correct)], 1)
    expected = stats.binomtest(correct, count).proportion_ci(method="exact")
    assert found.accuracy.item() == pytest.approx(correct / count)
    assert found.low.item() == pytest.approx(expected.low, abs=1e-12)
    assert found.high.item() == pytest.approx(expected.high, abs=1e-12)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_temperature_curve_is_nll_and_ece_of_divided_logits(temperature):
    scores = make_scores()
    curve = temperature_curve(scores.logits, scores.labels, [temperature])
    divided = scores.logits / temperature
    assert curve.nll == [pytest.approx(negative_log_likelihood(divided, scores.labels, from_logits=True).item(), rel=1e-9)]
    assert curve.ece == [pytest.approx(expected_calibration_error(divided, scores.labels, from_logits=True).item(), abs=1e-12)]


def test_scores_that_overflow_are_refused():
    huge = Scores(torch.tensor([[1e308, -1e308]], dtype=torch.float64), torch.tensor([0]))
    with pytest.raises(InvalidInput, match="entropy scores of svhn must be finite"):
        score_densities(make_scores(20, 2), {"svhn": huge})


def test_raw_samples_are_last_in_a_lambda_curve():
    mixed = torch.tensor([[0.0, 0.0], [math.log(4), 0.0]])
    raw = torch.tensor([[math.log(9), 0.0]])
    one, other = (mixed, torch.tensor([0.5, 0.95]), raw), (mixed, torch.tensor([0.9, 0.95]), raw)
    assert lambda_curve([one], num_bins=2) == [pytest.approx(value) for value in (0.5, 0.8, 0.9)]
    assert lambda_curve([other], num_bins=2) == [None, pytest.approx(0.65), pytest.approx(0.9)]
    assert lambda_curve([one, other], num_bins=2) == [pytest.approx(value) for value in (0.5, 0.725, 0.9)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_a_confidence_on_an_edge_is_in_the_bar_below_it(dtype):
    confidence = torch.arange(11, 21, dtype=torch.float64) / 20
    probs = torch.stack([confidence, 1 - confidence], dim=1).to(dtype)
    histogram = confidence_histogram([Scores(probs, torch.zeros(10).long(), from_logits=False)])
    assert histogram.right.tolist() == [0.0] * 10 + [0.1] * 10
    assert histogram.wrong.tolist() == [0.0] * 20
