import pytest
import torch

from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.evaluation.resampling import Cuts, block_draws, bootstrap_weights, calibrated_draws, cumulative
from rankmixup.metrics import adaptive_calibration_error, expected_calibration_error
from rankmixup.metrics.ties import confidence_odds, last_of_ties
from tests.oracles.metrics import random_probs


@pytest.mark.parametrize("samples", [1, 7, 3000, 600_000])
def test_every_replicate_draws_as_many_samples_as_there_are(samples, rng):
    weights = torch.cat([weights for _, weights in bootstrap_weights(samples, 3, rng)])
    assert weights.shape == (3, samples)
    assert (weights.sum(dim=1) == samples).all()
    assert (weights == weights.round()).all()


def test_weights_are_multinomial(rng):
    """Mean 1 and variance 1 - 1/N, each within five standard errors."""
    weights = torch.cat([weights for _, weights in bootstrap_weights(20, 40_000, rng)])
    assert (weights.mean(dim=0) - 1).abs().max() < 5 / 200
    assert (weights.var(dim=0) - 0.95).abs().max() < 5 * 3**0.5 / 200


def test_calibrated_models_are_right_as_often_as_they_say(rng):
    confidence = torch.tensor([0.0, 0.3, 0.9, 1.0])
    draws = torch.cat([draws for _, draws in calibrated_draws(confidence, 200_000, rng)])
    assert draws.shape == (200_000, 4)
    share = draws.mean(dim=0)
    assert share[0] == 0
    assert share[3] == 1
    torch.testing.assert_close(share, confidence, atol=5 * 0.5 / 200_000**0.5, rtol=0)


@pytest.mark.parametrize("ties", [False, True])
def test_cuts_give_the_errors(ties, rng):
    probs, target = random_probs(101, 4, rng)
    if ties:
        probs = (probs * 10).round() + 1
        probs = probs / probs.sum(dim=1, keepdim=True)
    confidence, order = probs.amax(dim=1).sort()
    gap = confidence - (probs.argmax(dim=1) == target).double()[order]
    mass = Cuts.equal_mass(last_of_ties(confidence_odds(confidence)), 15)
    for cuts, expected in ((Cuts.equal_width(confidence, 15), expected_calibration_error), (mass, adaptive_calibration_error)):
        error = cuts.at(cumulative(gap)).diff().abs().sum() / 101
        torch.testing.assert_close(error, expected(probs, target, from_logits=False))
        # Block by block it is the same.
        blocks = sum(cuts.at(cumulative(gap[first : first + 30]), first) for first in range(0, 101, 30))
        torch.testing.assert_close(blocks, cuts.at(cumulative(gap)))


def test_blocks_share_the_draws_as_a_multinomial_does(rng):
    drawn = block_draws([10, 30, 60], 20_000, rng)
    assert (drawn.sum(dim=1) == 100).all()
    share = torch.tensor([0.1, 0.3, 0.6], dtype=torch.float64)
    torch.testing.assert_close(drawn.double().mean(dim=0), 100 * share, rtol=0, atol=5 * 5 / 20_000**0.5)
    torch.testing.assert_close(drawn.double().var(dim=0), 100 * share * (1 - share), rtol=0.06, atol=0)


def test_replicates_must_be_positive():
    with pytest.raises(InvalidInput, match="replicates must be at least 1, got 0"):
        list(bootstrap_weights(3, 0, random.stream(0)))
