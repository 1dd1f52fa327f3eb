"""Named streams, Beta draws against theory, and that nobody else's generator is touched."""

import random as python_random

import numpy as np
import pytest
import torch
from scipy import stats

from rankmixup import random
from tests.oracles import unchecked


def first(*names):
    return random.stream(*names).initial_seed()


def test_a_stream_is_its_seed_and_names_on_every_machine():
    # The first eight bytes of SHA-256('[0, "mixing", 0]'), little-endian, without the lowest bit.
    assert first(0, "mixing", 0) == 6628477537858176429


def test_streams_with_other_seeds_or_names_are_others():
    names = [(0,), (1,), (0, "a"), (1, "a"), (0, "b"), (0, "a", 0), (0, "a", 1), (0, "a0"), (0, "a", "0"), (12, 3), (1, 23), (-1,)]
    assert len({first(*name) for name in names}) == len(names)


def test_streams_are_uncorrelated():
    draws = torch.stack([torch.rand(2000, generator=random.stream(0, "mixing", rank)) for rank in range(4)])
    correlation = torch.corrcoef(draws) - torch.eye(4)
    assert correlation.abs().max() < 5 / 2000**0.5  # five standard deviations


def test_a_saved_stream_continues_where_it_was():
    rng = random.stream(0)
    random.beta(2.0, (3,), rng)
    state = rng.get_state()
    expected = random.beta(2.0, (3,), rng), random.permutations(2, 9, rng)
    rng = random.stream(5)
    rng.set_state(state)
    again = random.beta(2.0, (3,), rng), random.permutations(2, 9, rng)
    assert all(map(torch.equal, expected, again))


@pytest.mark.parametrize("alpha", [0.2, 1.0, 2.0, 10.0])
def test_beta_draws_have_the_right_distribution(alpha, rng):
    """Kolmogorov-Smirnov at 1 in 100,000; mean 1/2 and variance 1 / (4 (2 alpha + 1)) within five standard errors."""
    draws = random.beta(alpha, (40, 100), rng).flatten().double().numpy()
    law = stats.beta(alpha, alpha)
    assert stats.kstest(draws, law.cdf).pvalue > 1e-5
    variance, size = 1 / (4 * (2 * alpha + 1)), draws.size
    assert abs(draws.mean() - 0.5) < 5 * (variance / size) ** 0.5
    spread = law.moment(4) - 2 * law.moment(3) + 1.5 * law.moment(2) - 0.5 * law.moment(1) + 1 / 16 - variance**2
    assert abs(np.square(draws - 0.5).mean() - variance) < 5 * (spread / size) ** 0.5


@pytest.mark.parametrize("alpha", [1e-3, 1e-30, 1e-300])
def test_beta_of_a_tiny_alpha_is_zero_or_one_and_never_nan(alpha, rng):
    draws = random.beta(alpha, (1000,), rng)
    assert not draws.isnan().any()
    assert ((draws >= 0) & (draws <= 1)).all()
    near_one = (draws > 0.5).float().mean().item()
    assert abs(near_one - 0.5) < 5 * 0.5 / 1000**0.5
    assert (torch.minimum(draws, 1 - draws) < 1e-3).float().mean() > 0.9


def test_beta_of_a_large_alpha_is_a_half(rng):
    torch.testing.assert_close(random.beta(1e12, (5,), rng), torch.full((5,), 0.5))


def test_beta_gives_single_precision_of_the_shape_asked_for(rng):
    assert random.beta(1.0, (2, 3), rng).shape == (2, 3)
    assert random.beta(1.0, (), rng).shape == ()
    assert random.beta(1.0, (2,), rng).dtype == torch.float32


def test_calls_draw_afresh(rng):
    assert not torch.equal(random.beta(1.0, (5,), rng), random.beta(1.0, (5,), rng))


def test_permutations_are_permutations_and_uniform_with_fixed_points(rng):
    rows = random.permutations(6000, 3, rng)
    assert torch.equal(rows.sort().values, torch.arange(3).expand(6000, 3))
    _, counts = rows.unique(dim=0, return_counts=True)
    assert len(counts) == 6
    assert stats.chisquare(counts.numpy()).pvalue > 1e-5


def states():
    return torch.get_rng_state().tolist(), str(np.random.get_state()), python_random.getstate()  # noqa: NPY002 - read, not used


def test_draws_touch_no_global_generator(rng):
    before = states()
    with unchecked():  # the checker of annotations draws from Python's generator
        random.beta(0.5, (3,), rng)
        random.permutations(3, 5, rng)
    assert states() == before


@pytest.mark.parametrize("gpus", [True, False])
def test_a_seed_fixes_the_body_and_puts_the_generator_back(gpus):
    before = torch.get_rng_state()
    draws = []
    for name in ("a", "a", "b"):
        with random.global_seed(0, name, gpus=gpus):
            draws.append(torch.rand(3))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("gpus", [True, False])
def test_a_seed_puts_the_generator_back_after_an_error(gpus):
    before = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError), random.global_seed(0, gpus=gpus):
        _ = torch.rand(1) / (1 // 0)
    assert torch.equal(torch.get_rng_state(), before)
