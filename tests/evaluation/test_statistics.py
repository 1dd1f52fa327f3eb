import pytest
import torch

from rankmixup.evaluation.noise_floor import noise_floor
from rankmixup.evaluation.replicates import bootstrap, read_samples
from rankmixup.evaluation.statistics import _smoothing, smooth_interval
from rankmixup.metrics.smooth import smooth_from_grid


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
