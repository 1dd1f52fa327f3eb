import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rankmixup.errors import InvalidInput
from rankmixup.metrics import confidence_by_lambda, kendall_tau, violated_mixed_pairs, violated_raw_pairs
from tests.oracles import unchecked

# Few different values, so that there are ties of every kind.
VALUES = st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0, 1, width=32)), min_size=2, max_size=40)


def test_lambda_is_folded_and_every_sample_lands_in_its_bin(rng):
    lam, confidence = torch.rand(500, generator=rng), torch.rand(500, generator=rng)
    centres, means = confidence_by_lambda(confidence, lam, num_bins=5)
    torch.testing.assert_close(centres, torch.tensor([0.55, 0.65, 0.75, 0.85, 0.95]))
    for centre, mean in zip(centres.tolist(), means.tolist(), strict=True):
        members = [c for c, each in zip(confidence.tolist(), lam.tolist(), strict=True) if abs(max(each, 1 - each) - centre) <= 0.05]
        assert abs(mean - sum(members) / len(members)) < 1e-5


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_lambda_on_an_edge_belongs_to_the_bin_below_it(dtype):
    lam = torch.arange(11, 21, dtype=torch.float64).div(20).to(dtype)
    _, means = confidence_by_lambda(lam, lam, num_bins=10)
    torch.testing.assert_close(means, lam)


def test_lambda_one_belongs_to_the_last_bin_and_an_empty_bin_is_nan():
    _, means = confidence_by_lambda(torch.tensor([0.9, 0.7]), torch.tensor([1.0, 0.0]), num_bins=2)
    assert means[0].isnan()
    torch.testing.assert_close(means[1], torch.tensor(0.8))


@pytest.mark.parametrize("size", [2, 3, 31, 32, 33, 1000])
@pytest.mark.parametrize("digits", [1, 2, 9])
def test_tau_is_scipys_with_many_ties_and_with_none(size, digits, rng):
    a = torch.rand(size, generator=rng, dtype=torch.float64).round(decimals=digits)
    b = (a + torch.rand(size, generator=rng, dtype=torch.float64)).round(decimals=digits)
    assert float(kendall_tau(a, b)) == pytest.approx(stats.kendalltau(a.numpy(), b.numpy()).statistic, abs=1e-12)


@given(VALUES)
def test_tau_is_scipys_for_any_values_and_the_same_from_both_sides(pairs):
    a, b = torch.tensor(pairs, dtype=torch.float64).unbind(1)
    expected = stats.kendalltau(a.numpy(), b.numpy()).statistic
    assert float(kendall_tau(a, b)) == pytest.approx(expected, abs=1e-12, nan_ok=True)
    assert float(kendall_tau(b, a)) == pytest.approx(expected, abs=1e-12, nan_ok=True)
    assert float(kendall_tau(a, -b)) == pytest.approx(-expected, abs=1e-12, nan_ok=True)


def test_tau_of_a_perfect_order_its_reverse_and_none_at_all():
    a = torch.arange(100.0)
    assert kendall_tau(a, a.square()) == 1
    assert kendall_tau(a, -a) == -1
    assert kendall_tau(a, torch.ones(100)).isnan()
    assert kendall_tau(a[:1], a[:1]).isnan()


def test_tau_refuses_what_cannot_be_ordered():
    with unchecked(), pytest.raises(InvalidInput, match="must have one shape, got \\[2\\] and \\[3\\]"):
        kendall_tau(torch.rand(2), torch.rand(3))
    with pytest.raises(InvalidInput, match="must hold numbers, got NaN"):
        kendall_tau(torch.tensor([0.0, torch.nan]), torch.rand(2))


def test_violated_pairs_by_hand():
    raw = torch.tensor([0.9, 0.5])
    mixed = torch.tensor([[0.95, 0.5], [0.7, 0.4], [0.8, 0.3]])
    # Of six pairs the first sample's first mix beats it; 0.5 only equals.
    assert violated_raw_pairs(raw, mixed) == pytest.approx(1 / 6)
    lam = torch.tensor([[0.1, 0.6], [0.8, 0.6], [0.3, 0.8]])  # folded: 0.9 0.8 0.7 and 0.6 0.6 0.8
    # First sample: 0.95 > 0.7 and 0.95 > 0.8 agree, 0.7 < 0.8 is violated. Second: one pair has equal lambdas, both others are violated.
    assert violated_mixed_pairs(mixed, lam) == pytest.approx(3 / 5)


def test_violated_mixed_pairs_against_loops(rng):
    mixed = torch.rand(4, 50, generator=rng).round(decimals=1)
    lam = torch.rand(4, 50, generator=rng).round(decimals=1)
    violated = counted = 0
    for sample in range(50):
        for one in range(4):
            for other in range(4):
                folded = [round(max(float(lam[m, sample]), 1 - float(lam[m, sample])), 6) for m in (one, other)]
                if folded[0] > folded[1]:
                    counted += 1
                    violated += bool(mixed[one, sample] < mixed[other, sample])
    # 0.3 and 0.7 fold to numbers that may differ in their last bit.
    assert violated_mixed_pairs(mixed, (lam - 0.5).abs().mul(10).round().div(10) + 0.5) == pytest.approx(violated / counted)


@given(st.integers(2, 4), st.integers(1, 8), st.integers(0, 1000))
def test_confidence_that_follows_lambda_violates_nothing_and_its_opposite_everything(mixes, samples, seed):
    lam = torch.rand(mixes, samples, generator=torch.Generator().manual_seed(seed))
    confidence = torch.maximum(lam, 1 - lam)
    assert violated_mixed_pairs(confidence, lam) == 0
    assert violated_mixed_pairs(1 - confidence, 1 - lam) == 1
    assert violated_raw_pairs(torch.ones(samples), confidence) == 0
    assert violated_raw_pairs(torch.zeros(samples), confidence) == 1


def test_one_mix_has_no_pairs_and_shapes_must_belong_together():
    assert violated_mixed_pairs(torch.rand(1, 5), torch.rand(1, 5)).isnan()
    with unchecked(), pytest.raises(InvalidInput, match="must hold M mixes of each of 4 samples, got shape \\[3, 5\\]"):
        violated_raw_pairs(torch.rand(4), torch.rand(3, 5))
    with unchecked(), pytest.raises(InvalidInput, match="must have one shape, got \\[3, 5\\] and \\[3, 4\\]"):
        violated_mixed_pairs(torch.rand(3, 5), torch.rand(3, 4))


FUNCTIONS = {
    "confidence_by_lambda": (confidence_by_lambda, torch.tensor([0.9, 0.6]), torch.tensor([0.7, 0.5])),
    "kendall_tau": (kendall_tau, torch.tensor([0.9, 0.6, 0.7]), torch.tensor([0.7, 0.5, 0.6])),
    "violated_raw_pairs": (violated_raw_pairs, torch.tensor([0.9, 0.6]), torch.tensor([[0.8, 0.7], [0.2, 0.3]])),
    "violated_mixed_pairs": (violated_mixed_pairs, torch.tensor([[0.8], [0.6]]), torch.tensor([[0.9], [0.3]])),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("argument", [0, 1])
@pytest.mark.parametrize("wrong", [torch.nan, None, "x", np.ma.masked_array([0.5], [True]), 1j, torch.tensor(0.5)])
def test_what_holds_no_numbers_of_the_right_shape_is_refused(name, argument, wrong):
    function, *given = FUNCTIONS[name]
    if wrong is torch.nan or wrong == 1j:
        given[argument] = given[argument] * wrong
    else:
        given[argument] = wrong
    with unchecked(), pytest.raises(InvalidInput, match=r"^\w+ (and \w+ )?must "):
        function(*given)


@pytest.mark.parametrize("name", ["confidence_by_lambda", "violated_mixed_pairs"])
@pytest.mark.parametrize("wrong", [-0.1, 1.5, torch.inf])
def test_lambda_outside_0_to_1_is_refused(name, wrong):
    function, confidence, lam = FUNCTIONS[name]
    with pytest.raises(InvalidInput, match=r"^lam must lie in 0\.\.1, got "):
        function(confidence, torch.full_like(lam, wrong))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_everything_is_allocated_on_the_device_of_the_input(name):
    function, *given = FUNCTIONS[name]
    expected = function(*given)
    with torch.device("meta"):  # where whatever names no device would be, and meet the input in vain
        found = function(*given)
    torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arrays_and_lists_are_as_good_as_tensors(name):
    function, *given = FUNCTIONS[name]
    expected = function(*(each.double() for each in given))
    with unchecked():
        for kind in (
            lambda each: each.double().numpy(),
            lambda each: each.double().numpy().astype(">f8"),
            lambda each: each.double().tolist(),
        ):
            torch.testing.assert_close(function(*map(kind, given)), expected, equal_nan=True)
