import pytest
import torch

from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.metrics import ece_noise_floor
from tests.oracles.metrics import binned


def test_floor_is_what_calibrated_models_show(rng):
    """Draw calibrated models by hand, one by one, and take their ECE from the naive loop."""
    confidence = 0.5 + 0.5 * torch.rand(300, generator=rng)
    values = []
    for _ in range(150):
        correct = torch.rand(300, generator=rng) < confidence
        probs = torch.stack([confidence, 1 - confidence], dim=1)
        values.append(binned(probs, 1 - correct.long(), 15)["ece"])
    mean = sum(values) / len(values)
    deviation = torch.tensor(values).std().item()
    floor = ece_noise_floor(confidence, observed=mean, rng=rng)
    assert floor.mean == pytest.approx(mean, abs=4 * deviation / len(values) ** 0.5)
    assert floor.low < mean < floor.high
    assert 0.3 < floor.p_value < 0.7


@pytest.mark.parametrize(("observed", "p_value"), [(0.0, 1.0), (1.0, 1 / 101)])
def test_p_value_counts_the_observation_itself(observed, p_value):
    floor = ece_noise_floor(torch.full((50,), 0.7), observed, random.stream(0), replicates=100)
    assert floor.p_value == pytest.approx(p_value)


def test_certain_predictions_have_no_noise():
    assert ece_noise_floor(torch.ones(10), 0.0, random.stream(0), replicates=10)[:3] == (0, 0, 0)


def test_it_repeats_for_a_seed_and_spans_chunks(rng):
    confidence = torch.rand(10_000, generator=rng)
    first, second = (ece_noise_floor(confidence, 0.01, random.stream(3), replicates=20) for _ in range(2))
    assert first == second
    # Four times the samples, half the noise.
    quarter = ece_noise_floor(confidence[:2500], 0.01, random.stream(3), replicates=200)
    assert quarter.mean / ece_noise_floor(confidence, 0.01, random.stream(3), replicates=200).mean == pytest.approx(2, rel=0.1)


def test_bad_input():
    with pytest.raises(InvalidInput, match="at least one sample"):
        ece_noise_floor(torch.ones(0), 0.1, random.stream(0))
    with pytest.raises(InvalidInput, match="replicates must be at least 1, got 0"):
        ece_noise_floor(torch.ones(1), 0.1, random.stream(0), replicates=0)
