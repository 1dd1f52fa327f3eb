import pytest
import torch
from scipy.stats import binomtest

from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import METRICS, Estimate, all_metrics
from rankmixup.evaluation.replicates import sorted_samples
from rankmixup.evaluation.statistics import gap_estimate
from rankmixup.evaluation.uncertainty import CALIBRATED, MISCALIBRATED, metric_uncertainty
from tests.oracles.uncertainty import two_class

ERRORS = {"ece", "ece_l2", "mce", "aece", "classwise_ece", "classwise_ece_sum", "oe", "ue", "smooth_ece", "debiased_ece", "ks"}


def calibrated(samples: int, classes: int, rng: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    logits = 1.5 * torch.randn(samples, classes, generator=rng, dtype=torch.float64)
    return logits, torch.multinomial(logits.softmax(dim=1), 1, generator=rng).squeeze(1)


def test_every_metric_has_what_it_can_have(rng):
    logits, target = calibrated(1000, 6, rng)
    found = metric_uncertainty(logits, target, from_logits=True, replicates=200, rng=rng)
    values = all_metrics(logits, target, from_logits=True)
    assert tuple(found) == tuple(METRICS)
    for key, each in found.items():
        assert each.value == values[key]
        assert each.low <= each.value <= each.high, key
        assert (each.floor is not None) == (each.p_value is not None) == (each.verdict is not None) == (key in ERRORS)


def test_verdicts_separate_a_calibrated_model_from_an_overconfident_one(rng):
    logits, target = calibrated(5000, 6, rng)
    overconfident = metric_uncertainty(2 * logits, target, from_logits=True, replicates=200, rng=rng)
    for key in ERRORS - {"mce", "ue"}:  # one is noise in the emptiest bin, the other blind to overconfidence
        assert overconfident[key].verdict == MISCALIBRATED, key
        assert overconfident[key].low > overconfident[key].floor.mean, key
    # A single test at 5 % would fail one time in twenty: 0.001 is what this asks for.
    good = metric_uncertainty(logits[:2000], target[:2000], from_logits=True, replicates=1000, rng=rng)
    assert all(good[key].p_value > 0.001 for key in ERRORS)
    for key in ERRORS - {"mce"}:  # which may rest on a small bin
        assert good[key].verdict == (CALIBRATED if good[key].p_value >= 0.05 else MISCALIBRATED)


def test_means_have_the_intervals_of_means(rng):
    logits, target = calibrated(2000, 6, rng)
    found = metric_uncertainty(logits, target, from_logits=True, replicates=600, rng=rng)
    nll = -logits.log_softmax(dim=1)[range(2000), target]
    assert (found["nll"].high - found["nll"].low) / 2 == pytest.approx(1.96 * nll.std().item() / 2000**0.5, rel=0.2)
    wilson = binomtest(round(2000 * found["accuracy"].value), 2000).proportion_ci(method="wilson")
    assert (found["accuracy"].low, found["accuracy"].high) == pytest.approx((wilson.low, wilson.high), abs=1e-6)


def test_all_right_is_not_certain_to_stay_so():
    found = metric_uncertainty(
        torch.tensor([[0.8, 0.2]] * 20), torch.zeros(20, dtype=torch.long), replicates=50, rng=random.stream(0), from_logits=False
    )
    assert found["accuracy"].low == pytest.approx(0.8389, abs=1e-4)  # 20 / (20 + 1.96 ** 2)
    assert (found["ece"].value, found["ece"].low, found["ece"].high) == (pytest.approx(0.2), None, None)
    assert found["ece"].p_value == pytest.approx(0.8**20, abs=0.1)


def test_it_repeats_for_a_seed_and_scores_mean_what_is_said(rng):
    logits, target = calibrated(300, 3, rng)
    first, second = (metric_uncertainty(logits, target, from_logits=True, replicates=50, rng=random.stream(1)) for _ in range(2))
    assert first == second
    as_probs = metric_uncertainty(logits.softmax(dim=1), target, replicates=50, rng=random.stream(1), from_logits=False)
    assert as_probs["ece"].value == pytest.approx(first["ece"].value)
    assert "top5_accuracy" not in first


def test_ece_alone_is_ece_among_all(rng):
    logits, target = calibrated(1000, 3, rng)
    confidence, prediction = logits.softmax(dim=1).max(dim=1)
    alone = gap_estimate(sorted_samples(confidence, prediction == target, 15), "ece", 0.0, 1000, random.stream(1))
    among = metric_uncertainty(logits, target, from_logits=True, replicates=400, rng=random.stream(2))["ece"]
    assert alone.floor.mean == pytest.approx(among.floor.mean, rel=0.1)
    assert alone.high == pytest.approx(among.high, abs=0.3 * among.floor.mean)


@pytest.mark.parametrize(
    ("probs", "target"),
    [
        pytest.param([[0.7, 0.3]], [0], id="one sample"),
        pytest.param([[1.0], [1.0]], [0, 0], id="one logit"),
        pytest.param([[1.0, 0.0], [0.0, 1.0]], [0, 1], id="certain and right"),
        pytest.param([[1.0, 0.0], [0.0, 1.0]], [1, 0], id="certain and wrong"),
        pytest.param([[0.5, 0.5]] * 20, [0, 1] * 10, id="ties everywhere"),
        pytest.param([[0.8, 0.2]] * 20, [0] * 20, id="all right"),
        pytest.param([[0.8, 0.2]] * 20, [1] * 20, id="all wrong"),
    ],
)
def test_corners_give_ordered_numbers_or_none(probs, target):
    found = metric_uncertainty(torch.tensor(probs), torch.tensor(target), replicates=50, rng=random.stream(0), from_logits=False)
    assert found["accuracy"].value == all_metrics(torch.tensor(probs), torch.tensor(target), from_logits=False)["accuracy"]
    for key, each in found.items():
        if each.low is not None:
            assert each.low <= each.value + 1e-9, key
            assert each.value <= each.high + 1e-9, key
        if each.floor is not None:
            assert 0 <= each.floor.low <= each.floor.high, key
            assert 0 < each.p_value <= 1, key


def test_an_infinite_nll_has_no_interval():
    found = metric_uncertainty(
        torch.tensor([[1.0, 0.0], [0.6, 0.4]]), torch.tensor([1, 0]), replicates=20, rng=random.stream(0), from_logits=False
    )
    assert found["nll"] == Estimate(float("inf"))
    assert found["brier"].low is not None


def test_half_precision(rng):
    logits, target = calibrated(500, 6, rng)
    found = metric_uncertainty(logits.half(), target, from_logits=True, replicates=50, rng=rng)
    assert found["ece"].value == all_metrics(logits.half(), target, from_logits=True)["ece"]


def test_bad_input(rng):
    probs, target = two_class(torch.tensor([0.7, 0.9]), torch.tensor([True, False]))
    with pytest.raises(InvalidInput, match="replicates must be at least 1, got 0"):
        metric_uncertainty(probs, target, replicates=0, rng=rng, from_logits=False)
    with pytest.raises(InvalidInput, match="num_bins must be at least 1, got 0"):
        metric_uncertainty(probs, target, num_bins=0, rng=rng, from_logits=False)
    with pytest.raises(InvalidInput, match=r"target must lie in 0\.\.1, got 7"):
        metric_uncertainty(probs, torch.tensor([0, 7]), rng=rng, from_logits=False)
    with pytest.raises(InvalidInput, match="probs must be finite"):
        metric_uncertainty(probs * torch.nan, target, rng=rng, from_logits=False)


def test_a_maximum_error_that_few_samples_decide_is_not_called_calibrated(rng):
    """1000 samples as right as they say, and 3 of confidence 0.5 of which none is: that bin decides, and says nothing."""
    confidence = torch.cat([torch.full((1000,), 0.9), torch.full((3,), 0.5)])
    correct = torch.cat([torch.rand(1000, generator=rng) < 0.9, torch.zeros(3, dtype=torch.bool)])
    found = metric_uncertainty(*two_class(confidence, correct), replicates=200, rng=rng, from_logits=False)
    assert found["mce"].p_value >= 0.05
    assert found["mce"].verdict == "rests on a bin of 3 samples"
    assert found["mce"].high <= 1
    assert found["ece"].verdict == CALIBRATED
    many = metric_uncertainty(*two_class(confidence[:1000], correct[:1000]), replicates=200, rng=rng, from_logits=False)
    assert many["mce"].verdict == CALIBRATED


def test_intervals_stay_within_the_range_of_their_metric(rng):
    """A bin of three sure and wrong predictions would need a gap above 1 for the upper end of the maximum."""
    confidence = torch.cat([torch.full((100,), 0.7), torch.full((3,), 0.96)])
    correct = torch.cat([torch.arange(100) < 70, torch.tensor([False, False, True])])
    found = metric_uncertainty(*two_class(confidence, correct), replicates=300, rng=rng, from_logits=False)
    for key, each in found.items():
        if each.low is not None and key not in ("nll", "brier"):
            assert 0 <= each.low <= each.high <= 1, key


def test_many_samples_are_resampled_block_by_block(rng, monkeypatch):
    """Blocks of 64 samples instead of one of all: the same but for the draws."""
    logits, target = calibrated(1500, 6, rng)
    whole = metric_uncertainty(1.3 * logits, target, from_logits=True, rng=rng)
    for module in ("replicates", "noise_floor"):
        monkeypatch.setattr(f"rankmixup.evaluation.{module}.BLOCK", 64)
    blocks = metric_uncertainty(1.3 * logits, target, from_logits=True, rng=rng)
    for key, each in whole.items():
        assert blocks[key].value == pytest.approx(each.value, abs=1e-12), key
        if each.low is not None and key != "mce":  # one bin of few samples decides that, which jumps
            width = each.high - each.low
            assert blocks[key].low == pytest.approx(each.low, abs=0.15 * width), key
            assert blocks[key].high == pytest.approx(each.high, abs=0.15 * width), key
        if each.floor is not None:
            # Four standard errors of the difference of two means over 1000 replicates, of which four standard deviations hold 95 %.
            spread = (each.floor.high - each.floor.low) / 4
            assert blocks[key].floor.mean == pytest.approx(each.floor.mean, abs=4 * spread * (2 / 1000) ** 0.5), key
