import pytest
import torch

from rankmixup import random
from rankmixup.evaluation.noise_floor import noise_floor
from rankmixup.evaluation.replicates import bootstrap, read_samples
from rankmixup.evaluation.statistics import SignFlips, _smoothing, smooth_interval
from rankmixup.metrics.classwise import class_gaps
from rankmixup.metrics.rows import bin_index
from rankmixup.metrics.smooth import smooth_from_grid
from tests.oracles.metrics import random_probs


@pytest.mark.parametrize("num_bins", [1, 2, 7])
def test_every_residual_of_a_sample_gets_the_same_sign(num_bins, rng):
    probs, target = random_probs(50, 4, rng)
    probs, replicates = probs.double(), 6
    flips = SignFlips(4, num_bins, replicates, random.stream(3))
    flips.add(probs, target)
    signs = torch.empty(50, replicates).bernoulli_(0.5, generator=random.stream(3)) * 2 - 1
    expected = torch.zeros(4, num_bins, replicates, dtype=torch.float64)
    for row, label in enumerate(target.tolist()):
        for klass in range(4):
            place = bin_index(probs[row, klass : klass + 1], num_bins).item()
            expected[klass, place] += (probs[row, klass] - float(klass == label)) * signs[row]
    torch.testing.assert_close(flips.cells.view_as(expected).double(), expected, atol=1e-5, rtol=0)


def test_the_interval_of_classwise_ece_has_its_value_and_shrinks_with_samples(rng):
    logits = torch.randn(4000, 4, generator=rng, dtype=torch.float64)
    target = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
    widths = []
    for size in (500, 4000):
        probs = (2 * logits[:size]).softmax(1)
        flips = SignFlips(4, 15, 200, rng)
        flips.add(probs, target[:size])
        gaps = class_gaps(probs, target[:size], 15, from_logits=False)
        found = flips.interval(gaps, size, noise_floor(torch.full((999,), 0.01, dtype=torch.float64), 1.0))
        assert found.value == pytest.approx(gaps.abs().sum().item() / size, abs=1e-6)
        assert 0 < found.low < found.value <= found.high
        widths.append(found.high - found.low)
    assert widths[1] < widths[0] / 2


def test_residuals_smoothed_with_a_bandwidth_tell_on_which_side_of_it_smooth_ece_is(rng):
    for _ in range(10):
        gap = torch.randn(512, generator=rng, dtype=torch.float64) / 512
        grid = torch.nn.functional.pad(torch.stack([torch.zeros_like(gap), gap], dim=1).flatten(), (0, 1))
        error = smooth_from_grid(grid, 1).item()
        for sigma in (0.8 * error, 1.25 * error):
            assert ((gap @ _smoothing(sigma)).abs().mean().item() > sigma) == (error > sigma)


def test_the_interval_of_smooth_ece_is_near_that_of_ece_for_one_sided_errors(rng):
    logits = 2 * torch.randn(3000, 5, generator=rng, dtype=torch.float64)
    target = torch.multinomial((logits / 2).softmax(1), 1, generator=rng).squeeze(1)
    samples = read_samples(logits, target, num_bins=15, from_logits=True)
    (draws,) = bootstrap([samples], 400, rng)
    found = smooth_interval(samples, draws, noise_floor(torch.full((999,), 0.01, dtype=torch.float64), 1.0))
    gaps = samples.confidence - samples.right.byte()
    gap = gaps.mean().item()  # all in one direction, so that smoothing takes nothing off
    error = gaps.std().item() / len(samples) ** 0.5
    assert found.value == pytest.approx(gap, rel=0.02)
    assert (found.low, found.high) == pytest.approx((gap - 1.96 * error, gap + 1.96 * error), abs=0.4 * error)
