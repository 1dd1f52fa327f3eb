import pytest
import torch

from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import ece_noise_floor
from rankmixup.evaluation.uncertainty import metric_uncertainty
from tests.oracles.uncertainty import calibrated_values, two_class


def test_floors_are_what_calibrated_models_show(rng):
    """Draw calibrated models by hand, one by one, and take their errors from the naive loops."""
    confidence = 0.5 + 0.5 * torch.rand(300, generator=rng)
    expected = calibrated_values(confidence, 15, 150, rng)
    correct = torch.rand(300, generator=rng) < confidence
    found = metric_uncertainty(*two_class(confidence, correct), rng=rng, from_logits=False)
    for key, values in expected.items():
        floor = found[key].floor
        assert floor is not None
        assert floor.mean == pytest.approx(values.mean().item(), abs=4 * values.std().item() / 150**0.5), key
        # A central 95 % range holds 95 % of the naive draws, give or take four standard errors.
        assert ((values >= floor.low) & (values <= floor.high)).double().mean() > 0.95 - 4 * (0.95 * 0.05 / 150) ** 0.5, key
    assert ece_noise_floor(confidence, 0.0, rng).mean == pytest.approx(found["ece"].floor.mean, rel=0.1)


@pytest.mark.parametrize(("observed", "p_value"), [(0.0, 1.0), (1.0, 1 / 101)])
def test_p_value_counts_the_observation_itself(observed, p_value):
    floor = ece_noise_floor(torch.full((50,), 0.7), observed, random.stream(0), replicates=100)
    assert floor.p_value == pytest.approx(p_value)


def test_certain_predictions_have_no_noise():
    assert ece_noise_floor(torch.ones(10), 0.0, random.stream(0), replicates=10)[:3] == (0, 0, 0)


def test_it_repeats_for_a_seed_and_spans_chunks(rng):
    confidence = torch.rand(10_000, generator=rng)
    first, second = (ece_noise_floor(confidence, 0.01, random.stream(3), replicates=100) for _ in range(2))
    assert first == second
    # Four times the samples, half the noise.
    quarter = ece_noise_floor(confidence[:2500], 0.01, random.stream(3), replicates=400)
    assert quarter.mean / ece_noise_floor(confidence, 0.01, random.stream(3), replicates=400).mean == pytest.approx(2, rel=0.1)


def test_bad_input():
    with pytest.raises(InvalidInput, match="at least one sample"):
        ece_noise_floor(torch.ones(0), 0.1, random.stream(0))
    with pytest.raises(InvalidInput, match="replicates must be at least 1, got 0"):
        ece_noise_floor(torch.ones(1), 0.1, random.stream(0), replicates=0)
