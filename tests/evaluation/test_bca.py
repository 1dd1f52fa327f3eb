"""Bootstrap intervals of skewed metrics with few samples."""

import pytest
import torch
from scipy import stats

from rankmixup import random
from rankmixup.evaluation.bca import bca_interval, ranked_influence, skewness
from rankmixup.evaluation.replicates import Samples, ranked_values, sorted_samples


def test_means_of_few_skewed_numbers_are_covered_as_often_as_said():
    """Numbers as skewed as an NLL: of 30, percentiles cover 91 % of the time."""
    rng, sets, size = random.stream(0, "skewed"), 3000, 30
    numbers = -torch.rand(sets, size, generator=rng, dtype=torch.float64).log()  # with mean 1
    covered = torch.zeros(2)
    for row in numbers:
        values = row[torch.randint(size, (300, size), generator=rng)].mean(dim=1)
        ends = bca_interval(values, row.mean().item(), size, skewness(row - row.mean())), values.quantile(values.new_tensor([0.025, 0.975]))
        covered += torch.tensor([low <= 1 <= high for low, high in ends])
    corrected, percentile = (covered / sets).tolist()
    assert 0.925 < corrected < 0.96
    assert percentile < corrected - 0.015


@pytest.mark.parametrize("size", [5, 30, 1000])
def test_of_a_symmetric_metric_only_the_width_is_corrected(size):
    values = torch.from_numpy(stats.norm.ppf((torch.arange(20_000, dtype=torch.float64) + 0.5).numpy() / 20_000))
    low, high = bca_interval(values, 0.0, size)
    wide = stats.t.ppf(0.975, size - 1) * (size / (size - 1)) ** 0.5
    assert high == pytest.approx(wide, abs=0.03)
    assert low == pytest.approx(-high, abs=1e-3)


def draw(size: int, steps: int, rng: torch.Generator) -> Samples:
    confidence = 0.5 + 0.5 * torch.rand(size, generator=rng, dtype=torch.float64)
    confidence = (confidence * steps).round() / steps
    right = torch.rand(size, generator=rng, dtype=torch.float64) < confidence
    right[:2] = torch.tensor([True, False])
    return sorted_samples(confidence, right, 15)


@pytest.mark.parametrize("steps", [20, 10**6], ids=["ties", "no ties"])
def test_influences_are_those_of_leaving_each_sample_out(steps):
    for seed in range(5):
        samples = draw(60, steps, random.stream(seed, "influence"))
        found, all_but = ranked_influence(samples.right, samples.last), []
        for left_out in range(60):
            kept = torch.arange(60) != left_out
            rest = sorted_samples(samples.confidence[kept], samples.right[kept], 15)
            all_but.append(ranked_values(torch.ones(1, 59), rest))
        for key, influence in found.items():
            values = torch.cat([each[key] for each in all_but])
            assert influence.mean().item() == pytest.approx(0, abs=1e-12)
            torch.testing.assert_close(influence, 59 * (values.mean() - values), atol=0.1 * influence.std().item() + 0.02, rtol=0.1)
