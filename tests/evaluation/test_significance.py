import numpy as np
import pytest
import torch
from scipy import stats

from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import holm, mcnemar, over_seeds, paired_comparison
from rankmixup.metrics import expected_calibration_error, negative_log_likelihood
from tests.oracles import unchecked

KEYS = ["accuracy", "nll", "brier", "ece", "ece_l2", "mce", "aece", "oe", "ue", "aurc", "eaurc", "auroc_correct"]


def model(samples: int, rng: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Calibrated logits of five classes, and their labels."""
    logits = 1.5 * torch.randn(samples, 5, generator=rng, dtype=torch.float64)
    return logits, torch.multinomial(logits.softmax(dim=1), 1, generator=rng).squeeze(1)


@pytest.mark.parametrize("key", KEYS)
def test_a_model_does_not_differ_from_itself(key, rng):
    logits, target = model(200, rng)
    same = paired_comparison(logits, logits, target, key, from_logits=True, replicates=100, rng=rng)
    assert same.value == 0
    assert same.low <= 0 <= same.high
    assert same.p_value > 0.5


@pytest.mark.parametrize("key", ["ece", "nll", "aece", "oe"])
def test_an_overconfident_model_is_found_out_in_either_order(key, rng):
    logits, target = model(2000, rng)
    worse = paired_comparison(2 * logits, logits, target, key, from_logits=True, replicates=300, rng=rng)
    better = paired_comparison(logits, 2 * logits, target, key, from_logits=True, replicates=300, rng=rng)
    assert worse.value == -better.value > 0
    assert worse.low > 0 > better.high
    assert max(worse.p_value, better.p_value) < 0.01


def test_the_difference_is_that_of_the_metrics(rng):
    a, target = model(300, rng)
    b = 1.5 * a
    for key, metric in (("ece", expected_calibration_error), ("nll", negative_log_likelihood)):
        expected = metric(a, target, from_logits=True) - metric(b, target, from_logits=True)
        found = paired_comparison(a, b, target, key, from_logits=True, replicates=50, rng=rng)
        assert found.value == pytest.approx(expected.item(), abs=1e-9)


def test_pairing_makes_the_interval_of_a_mean_that_of_the_differences(rng):
    """For a mean, resampling jointly gives the t interval of the differences, far narrower than that of two separate sets."""
    a, target = model(3000, rng)
    b = a + 0.1 * torch.randn(3000, 5, generator=rng, dtype=torch.float64)
    found = paired_comparison(a, b, target, "nll", from_logits=True, replicates=2000, rng=rng)
    a_nll, b_nll = (-logits.log_softmax(dim=1)[range(3000), target] for logits in (a, b))
    margin = 1.96 * ((a_nll - b_nll).std() / 3000**0.5).item()
    assert (found.high - found.low) / 2 == pytest.approx(margin, rel=0.1)
    assert margin < 0.3 * 1.96 * ((a_nll.var() + b_nll.var()) / 3000).sqrt().item()


@pytest.mark.slow
@pytest.mark.parametrize(("scale_a", "scale_b"), [(1.0, 1.05), (1.0, 1.3), (1.3, 1.35)])
def test_the_interval_of_the_difference_in_ece_covers(scale_a, scale_b):
    """Over 200 test sets, at least 92 % less four standard errors."""
    logits, target = model(1_000_000, random.stream(0, "population"))
    errors = [expected_calibration_error(scale * logits, target, from_logits=True).item() for scale in (scale_a, scale_b)]
    covered = 0
    for seed in range(200):
        rng = random.stream(seed, "test set")
        logits, target = model(2000, rng)
        found = paired_comparison(scale_a * logits, scale_b * logits, target, from_logits=True, replicates=200, rng=rng)
        covered += found.low <= errors[0] - errors[1] <= found.high
    assert covered / 200 >= 0.92 - 4 * (0.92 * 0.08 / 200) ** 0.5


def test_paired_comparison_refuses(rng):
    logits, target = model(10, rng)
    with pytest.raises(InvalidInput, match=r"key must be one of accuracy, .*, got 'smooth_ece'"):
        paired_comparison(logits, logits, target, "smooth_ece", from_logits=True, rng=rng)
    with pytest.raises(InvalidInput, match="top5_accuracy needs at least 5 classes"):
        paired_comparison(logits[:, :3], logits[:, :3], target.clamp(max=2), "top5_accuracy", from_logits=True, rng=rng)
    with unchecked(), pytest.raises(InvalidInput, match="one class index for each of 5 samples"):
        paired_comparison(logits, logits[:5], target, from_logits=True, rng=rng)
    certain, label = torch.eye(3)[[0, 1]], torch.tensor([0, 1])
    with pytest.raises(InvalidInput, match="auroc_correct of these predictions must be a finite number"):
        paired_comparison(certain, certain, label, "auroc_correct", rng=rng, from_logits=False)


def test_mcnemar_by_hand():
    """5 against 0 of five discordant pairs: 2 / 2**5. Concordant pairs do not count; without discordant ones nothing speaks."""
    a, b = torch.tensor([True] * 5 + [True] * 7), torch.tensor([False] * 5 + [True] * 7)
    assert mcnemar(a, b) == mcnemar(b, a) == pytest.approx(2 / 32)
    assert mcnemar(a, a) == 1
    with unchecked(), pytest.raises(InvalidInput, match="same samples, got 12 and 3"):
        mcnemar(a, b[:3])


def test_holm_by_hand():
    assert holm([]) == []
    assert holm([0.2]) == [0.2]
    assert holm([0.01, 0.02, 0.03, 0.5]) == pytest.approx([0.04, 0.06, 0.06, 0.5])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    with pytest.raises(InvalidInput, match=r"p-values must lie in \[0, 1\]"):
        holm([0.5, float("nan")])


def test_over_seeds_agrees_with_scipy():
    values = [0.031, 0.028, 0.035, 0.030]
    found = over_seeds(values, confidence=0.9)
    expected = stats.t.interval(0.9, 3, loc=np.mean(values), scale=stats.sem(values))
    assert (found.value, found.low, found.high) == pytest.approx((np.mean(values), *expected))
    with pytest.raises(InvalidInput, match="at least one seed"):
        over_seeds([])
    with pytest.raises(InvalidInput, match="must be finite"):
        over_seeds([1.0, float("inf")])
    with pytest.raises(InvalidInput, match="confidence must lie between 0 and 1, got 95"):
        over_seeds([1.0, 2.0], confidence=95)
