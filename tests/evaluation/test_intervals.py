import numpy as np
import pytest
import torch
from scipy import stats

from rankmixup import random
from rankmixup.evaluation.intervals import inverted_interval
from rankmixup.evaluation.noise_floor import noise_floor
from rankmixup.evaluation.replicates import sorted_samples
from rankmixup.evaluation.statistics import gap_estimate
from studies import coverage


def absolute(gap: torch.Tensor) -> torch.Tensor:
    return gap.abs().sum(dim=-1)


def normal_case(gap: list[float], rng: torch.Generator, replicates: int = 4000):
    gap = torch.tensor(gap, dtype=torch.float64)
    noise = torch.randn(replicates, len(gap), generator=rng, dtype=torch.float64)
    calibrated = torch.randn(replicates, len(gap), generator=rng, dtype=torch.float64)
    return gap, noise, absolute, noise_floor(absolute(calibrated), absolute(gap).item())


def test_large_gaps_have_the_normal_interval(rng):
    """Where no gap can change its sign there is no bias: the sum of H gaps has a standard error of sqrt(H)."""
    interval = inverted_interval(*normal_case([20.0, -30.0, 25.0, -40.0], rng))
    assert interval.value == 115
    assert interval.centre == pytest.approx(115, abs=0.2)
    assert interval.low == pytest.approx(115 - 1.96 * 2, abs=0.25)
    assert interval.high == pytest.approx(115 + 1.96 * 2, abs=0.25)


def test_noise_alone_reaches_zero_and_is_corrected_for_bias(rng):
    """Eight gaps of a standard error times 0.8 sum up to what pure noise shows on average: nothing is left."""
    interval = inverted_interval(*normal_case([0.8, -0.8] * 4, rng))
    assert interval.low == 0
    assert interval.centre < 0.25 * interval.value
    assert interval.high >= interval.value


def test_one_gap_is_the_folded_normal(rng):
    """With one gap the population is known but for its size: |x| = 3 accepts sizes up to 3 + 1.96."""
    interval = inverted_interval(*normal_case([3.0], rng))
    assert interval.high == pytest.approx(3 + 1.96, abs=0.15)
    # P(|m + Z| >= 3) = 2.5 %, by the folded normal.
    grid = np.linspace(0, 3, 30001)
    low = grid[np.argmax(stats.norm.sf(3 - grid) + stats.norm.cdf(-3 - grid) >= 0.025)]
    assert interval.low == pytest.approx(low, abs=0.15)


@pytest.mark.parametrize("scale", [0.0, 1e-12, 1e-9, 1e-6, 1e-3])
def test_a_gap_with_hardly_any_noise_changes_nothing(rng, scale):
    """Such is the gap of a bin whose predictions are all right and certain but for rounding."""
    gap, noise, statistic, floor = normal_case([20.0, -30.0, 25.0, -40.0], rng)
    known = torch.full((len(noise), 1), scale, dtype=torch.float64) * torch.randn(len(noise), 1, generator=rng, dtype=torch.float64)
    expected = inverted_interval(gap, noise, statistic, floor)
    found = inverted_interval(torch.cat([gap, gap.new_tensor([1e-11])]), torch.cat([noise, known], dim=1), statistic, floor)
    assert list(found) == pytest.approx(list(expected), abs=0.01)


def test_signed_errors_ignore_gaps_of_the_other_sign(rng):
    gap, noise, _, floor = normal_case([20.0, -30.0, 25.0], rng)
    interval = inverted_interval(gap, noise, lambda values: values.clamp(min=0).sum(dim=-1), floor, signed=True)
    assert interval.value == 45
    assert interval.low == pytest.approx(45 - 1.96 * 2**0.5, abs=0.2)
    assert interval.high == pytest.approx(45 + 1.96 * 2**0.5, abs=0.2)


def test_without_a_wrong_prediction_there_is_no_interval():
    certain = gap_estimate(sorted_samples(torch.ones(20), torch.ones(20), 15), "ece", 0.0, 10, random.stream(0))
    assert (certain.low, certain.high) == (None, None)
    assert certain.floor[:3] == (0, 0, 0)


def test_no_noise_no_width(rng):
    gap, noise, statistic, floor = normal_case([3.0, -1.0], rng)
    assert inverted_interval(gap, torch.zeros_like(noise), statistic, floor) == (4, 4, 4, 4)


SLOW_CELLS = [
    ("cifar10-like", "overconfident", 2000, 0.02),
    ("cifar100-like", "one bin", 10_000, 0.05),
    ("tiny-like", "temperature", 10_000, 0.02),
    ("tiny-like", "alternating", 2000, 0.10),
    ("uniform", "overconfident", 2000, 0.01),
]


@pytest.mark.slow
@pytest.mark.parametrize("cell", SLOW_CELLS, ids=str)
def test_coverage(cell):
    """92 to 98 % above twice the floor, at least 92 % below; four standard errors of 400 draws are allowed for."""
    draws = 400
    row = coverage.cell(*cell, draws=draws, replicates=300, seed=[1])
    assert row["coverage"] >= 0.92 - 4 * (0.92 * 0.08 / draws) ** 0.5
    if row["true"] > 2 * row["floor"]:
        assert row["coverage"] <= 0.98 + 4 * (0.98 * 0.02 / draws) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("name", coverage.CONFIDENCES)
def test_calibrated_models_reach_zero_and_have_uniform_p_values(name):
    row = coverage.cell(name, "overconfident", 2000, 0.0, draws=500, replicates=300, seed=[1])
    assert row["reaches_zero"] >= 0.975 - 4 * (0.975 * 0.025 / 500) ** 0.5
    assert stats.kstest(row["p_values"], "uniform").pvalue > 1e-4


@pytest.mark.slow
def test_the_percentile_bootstrap_would_fail():
    """The reason for all this: at a true value of 0 it never covers, at 2 % seldom enough."""
    row = coverage.cell("tiny-like", "overconfident", 2000, 0.0, draws=100, replicates=200, seed=[1])
    assert row["percentile"] == 0


@pytest.mark.slow
def test_tables_of_counts_stand_for_samples(rng):
    """The study's shortcut against sample by sample: the same ends and floor from the same counts, on average over repeats."""
    confidence, share = coverage.population("uniform")
    accuracy = coverage.accuracies(confidence, share, "overconfident", 0.05)
    table = np.random.Generator(np.random.Philox(3))
    count = table.multinomial(2000, share)
    right = table.binomial(count, accuracy)
    correct = np.concatenate([np.arange(n) < k for n, k in zip(count, right, strict=True)])
    samples = sorted_samples(torch.from_numpy(np.repeat(confidence, count)), torch.from_numpy(correct).double(), 15)
    found = [gap_estimate(samples, "ece", 0.0, 500, rng) for _ in range(25)]
    one_by_one = np.array([(each.low, each.high, each.floor.mean) for each in found])
    tables = np.array([coverage.interval_of_table(confidence, count, right, 500, table) for _ in range(25)])[:, [0, 1, 3]]
    standard_error = np.sqrt((one_by_one.var(axis=0, ddof=1) + tables.var(axis=0, ddof=1)) / 25)
    assert (np.abs(one_by_one.mean(axis=0) - tables.mean(axis=0)) < 4 * standard_error).all()
    assert (standard_error < 0.001).all()  # fine enough to see a difference that matters
