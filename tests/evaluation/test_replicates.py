import pytest
import torch

from rankmixup import random
from rankmixup.evaluation.replicates import bootstrap, ranked_values, read_samples
from rankmixup.evaluation.resampling import bootstrap_weights
from rankmixup.evaluation.statistics import bin_statistics
from tests.oracles.metrics import random_probs
from tests.oracles.uncertainty import repeated


@pytest.mark.parametrize("ties", [False, True])
def test_a_replicate_is_the_metric_of_the_samples_drawn(ties, rng):
    """Build the data set that each replicate stands for, and compute its metrics the ordinary way."""
    probs, target = random_probs(60, 6, rng)
    if ties:
        probs = ((probs * 4).round() + 1) / ((probs * 4).round() + 1).sum(dim=1, keepdim=True)
    samples = read_samples(probs, target, num_bins=5, from_logits=False)
    (draws,) = bootstrap([samples], 8, random.stream(5))
    weights = torch.cat([weights for _, weights in bootstrap_weights(60, 8, random.stream(5))])
    probs, target = probs[samples.order], target[samples.order]
    for row, times in enumerate(weights):
        expected = repeated(probs, target, times, 5)
        for key, values in (draws.means | draws.ranked).items():
            assert values[row].item() == pytest.approx(expected[key], abs=1e-6), key
        assert draws.width[row].abs().sum().item() == pytest.approx(expected["ece"], abs=1e-6)
        assert draws.cumulative[row].abs().max().item() == pytest.approx(expected["ks"], abs=1e-6)
        if not ties:
            continue
        # Bins of equal mass keep the cuts of the original samples, so that only the sum over all bins is the replicate's.
        assert draws.mass[row].sum().item() == pytest.approx(draws.width[row].sum().item(), abs=1e-6)


def test_two_models_see_the_same_replicates(rng):
    probs, target = random_probs(40, 3, rng)
    first = read_samples(probs, target, num_bins=15, from_logits=False)
    # The same predictions in another order of confidence: the accuracy of every replicate must agree.
    second = read_samples(probs.square() / probs.square().sum(dim=1, keepdim=True), target, num_bins=15, from_logits=False)
    a, b = bootstrap([first, second], 50, rng)
    torch.testing.assert_close(a.means["accuracy"], b.means["accuracy"])
    assert a.means["accuracy"].std() > 0


def test_statistics_of_the_observed_gaps_are_the_metrics(rng):
    probs, target = random_probs(200, 4, rng)
    samples = read_samples(probs, target, num_bins=15, from_logits=False)
    expected = repeated(probs, target, torch.ones(200), 15)
    for key, statistic in bin_statistics(samples).items():
        gaps = samples.gaps(samples.mass if key == "aece" else samples.width)
        assert statistic(gaps).item() == pytest.approx(expected[key], abs=1e-9), key
    for key, value in ranked_values(torch.ones(1, 200), samples).items():
        assert value.item() == pytest.approx(expected[key], abs=1e-9), key


@pytest.mark.parametrize("ties", [False, True])
def test_ranks_are_the_same_block_by_block(ties, rng, monkeypatch):
    probs, target = random_probs(300, 6, rng)
    if ties:
        probs = ((probs * 4).round() + 1) / ((probs * 4).round() + 1).sum(dim=1, keepdim=True)
    weights = torch.cat([weights for _, weights in bootstrap_weights(300, 5, rng)])
    whole = ranked_values(weights, read_samples(probs, target, num_bins=15, from_logits=False))
    monkeypatch.setattr("rankmixup.evaluation.replicates.BLOCK", 7)
    samples = read_samples(probs, target, num_bins=15, from_logits=False)
    assert len(samples.blocks) > 5
    for key, values in ranked_values(weights, samples).items():
        torch.testing.assert_close(values, whole[key])
    torch.testing.assert_close(samples.bins().ece().item(), repeated(probs, target, torch.ones(300), 15)["ece"])
