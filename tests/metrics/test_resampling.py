import pytest
import torch

from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.metrics import adaptive_calibration_error
from rankmixup.metrics.resampling import bootstrap_weights, calibrated_draws, equal_mass, equal_width
from rankmixup.metrics.ties import confidence_odds, tie_key
from tests.oracles.metrics import random_probs


@pytest.mark.parametrize("samples", [1, 7, 3000, 600_000])
def test_every_replicate_draws_as_many_samples_as_there_are(samples, rng):
    weights = torch.cat(list(bootstrap_weights(samples, 3, rng)))
    assert weights.shape == (3, samples)
    assert (weights.sum(dim=1) == samples).all()
    assert (weights == weights.round()).all()


def test_weights_are_multinomial(rng):
    """Mean 1 and variance 1 - 1/N, each within five standard errors."""
    weights = torch.cat(list(bootstrap_weights(20, 40_000, rng)))
    assert (weights.mean(dim=0) - 1).abs().max() < 5 / 200
    assert (weights.var(dim=0) - 0.95).abs().max() < 5 * 3**0.5 / 200


def test_calibrated_models_are_right_as_often_as_they_say(rng):
    confidence = torch.tensor([0.0, 0.3, 0.9, 1.0])
    draws = torch.cat(list(calibrated_draws(confidence, 200_000, rng)))
    assert draws.shape == (200_000, 4)
    share = draws.mean(dim=0)
    assert share[0] == 0
    assert share[3] == 1
    torch.testing.assert_close(share, confidence, atol=5 * 0.5 / 200_000**0.5, rtol=0)


def test_shares_add_up_and_give_the_adaptive_error(rng):
    probs, target = random_probs(101, 4, rng)
    probs = (probs * 10).round() / 10  # ties
    probs = probs / probs.sum(dim=1, keepdim=True)
    confidence, order = probs.amax(dim=1).sort()
    correct = (probs.argmax(dim=1) == target).double()[order]
    mass = equal_mass(tie_key(confidence_odds(confidence)), 15)
    for shares in (equal_width(confidence, 15), mass):
        torch.testing.assert_close(shares.sum(dim=1), torch.ones(101, dtype=torch.float64))
    error = ((confidence - correct) @ mass).abs().sum() / 101
    torch.testing.assert_close(error, adaptive_calibration_error(probs, target))


def test_replicates_must_be_positive():
    with pytest.raises(InvalidInput, match="replicates must be at least 1, got 0"):
        list(bootstrap_weights(3, 0, random.stream(0)))
