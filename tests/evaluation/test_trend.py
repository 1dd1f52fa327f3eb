"""Tests of direction, against scipy's and against brute force."""

import itertools

import numpy as np
import pytest
from scipy.stats import page_trend_test, permutation_test, ttest_rel

from rankmixup.errors import InvalidInput
from rankmixup.evaluation.significance import ordered_direction, paired_direction


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("size", [2, 5, 9])
def test_sign_flips_are_those_of_scipy(size):
    differences = drawn(size) + 0.5
    found = paired_direction(differences.tolist())
    for alternative, p_value in (("greater", found.exact_for), ("less", found.exact_against)):
        expected = permutation_test(
            (differences,), np.sum, permutation_type="samples", alternative=alternative, n_resamples=np.inf, vectorized=False
        )
        assert p_value == pytest.approx(expected.pvalue)


def test_students_p_value_and_interval_are_those_of_a_paired_test():
    first, second = drawn(6), drawn(6, seed=1)
    found, expected = paired_direction((first - second).tolist()), ttest_rel(first, second)
    assert found.p_for == pytest.approx(ttest_rel(first, second, alternative="greater").pvalue)
    assert found.p_for + found.p_against == pytest.approx(1)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval()))


def test_what_five_seeds_can_show_and_three_cannot():
    assert paired_direction([1.0] * 5).exact_for == 1 / 32
    assert paired_direction([1.0] * 3).exact_for == 1 / 8
    assert paired_direction([-1.0] * 5).exact_against == 1 / 32


def test_many_pairs_are_flipped_at_random_and_never_give_zero():
    found = paired_direction([1.0] * 40)
    assert 0 < found.exact_for < 1e-4
    mixed = (drawn(30) + 0.3).tolist()
    assert paired_direction(mixed).exact_for == pytest.approx(paired_direction(mixed).p_for, abs=0.01)


@pytest.mark.parametrize("shape", [(1, 5), (3, 5), (3, 8), (6, 3)])
def test_page_is_that_of_scipy(shape):
    values = drawn(*shape, seed=2) + 0.3 * np.arange(shape[1])
    found = ordered_direction(values.tolist(), list(range(shape[1])))
    expected = page_trend_test(values, method="exact") if shape[0] > 1 else None
    if expected is not None:
        assert found.p_for == pytest.approx(expected.pvalue)
    backwards = ordered_direction(values.tolist(), list(range(shape[1]))[::-1])
    assert (backwards.p_for, backwards.p_against) == pytest.approx((found.p_against, found.p_for))
    assert backwards.effect == pytest.approx(-found.effect)


def test_ties_and_places_that_are_shared_by_brute_force():
    blocks, order = [[1.0, 1.0, 2.0, 0.5], [3.0, 2.0, 4.0, 4.0]], [0, 0, 1, 1]
    ranks = [[2.5, 2.5, 4, 1], [2, 1, 3.5, 3.5]]
    observed = sum(np.dot(each, order) for each in ranks)
    sums = [np.dot(a, order) + np.dot(b, order) for a in itertools.permutations(ranks[0]) for b in itertools.permutations(ranks[1])]
    found = ordered_direction(blocks, order)
    assert found.p_for == pytest.approx(np.mean(np.array(sums) >= observed))
    assert found.p_against == pytest.approx(np.mean(np.array(sums) <= observed))


def test_three_seeds_of_five_settings_can_prove_an_order():
    rising = [[1.0, 2.0, 3.0, 4.0, 5.0]] * 3
    found = ordered_direction(rising, [0, 1, 2, 3, 4])
    assert found.p_for == pytest.approx(1 / 120**3)
    assert found.effect == pytest.approx(1)


def test_nothing_moves_is_no_evidence():
    found = ordered_direction([[1.0, 1.0, 1.0]], [0, 1, 2])
    assert (found.effect, found.p_for, found.p_against) == (0, 1, 1)


@pytest.mark.parametrize(("blocks", "order"), [([], [0, 1]), ([[1.0, 2.0]], [0, 1, 2]), ([[1.0, 2.0]], [1, 1])])
def test_what_cannot_be_tested_is_refused(blocks, order):
    with pytest.raises(InvalidInput):
        ordered_direction(blocks, order)
    with pytest.raises(InvalidInput):
        paired_direction([])
