import math

import pytest
import torch

from rankmixup import functional as F
from rankmixup.errors import InvalidInput
from tests.oracles import metrics as oracle


def test_agree_with_loops(rng):
    probs, target = oracle.random_probs(200, 7, rng)
    assert F.negative_log_likelihood(probs, target, from_logits=False).item() == pytest.approx(oracle.nll(probs, target), abs=1e-12)
    assert F.brier_score(probs, target, from_logits=False).item() == pytest.approx(oracle.brier(probs, target), abs=1e-12)
    assert F.accuracy(probs, target, from_logits=False).item() == sum(correct for _, correct in oracle.top(probs, target)) / 200


def test_values_by_hand():
    probs, target = torch.tensor([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]], dtype=torch.float64), torch.tensor([1, 1])
    assert F.accuracy(probs, target, from_logits=False).item() == 0.5
    assert F.negative_log_likelihood(probs, target, from_logits=False).item() == pytest.approx(math.log(4) / 2)
    assert F.brier_score(probs, target, from_logits=False).item() == pytest.approx((0.25 + 0.5625 + 0.0625) / 2)


def test_agree_with_scikit_learn(rng):
    from sklearn.metrics import accuracy_score, log_loss

    probs, target = oracle.random_probs(200, 7, rng)
    assert F.negative_log_likelihood(probs, target, from_logits=False).item() == pytest.approx(log_loss(target, probs, labels=range(7)))
    assert F.accuracy(probs, target, from_logits=False).item() == pytest.approx(accuracy_score(target, probs.argmax(1)))


def test_nll_of_extreme_logits_is_exact():
    logits = torch.tensor([[1000.0, 0.0]], dtype=torch.float32)
    assert F.negative_log_likelihood(logits, torch.tensor([1]), from_logits=True).item() == 1000


@pytest.mark.parametrize("k", [1, 2, 5, 7])
@pytest.mark.parametrize("tied", [False, True])
def test_top_k_agrees_with_loops(k, tied, rng):
    probs, target = oracle.random_probs(300, 7, rng)
    if tied:
        probs = torch.randint(3, (300, 7), generator=rng, dtype=torch.float64).softmax(1)
    assert F.accuracy(probs, target, top_k=k, from_logits=False).item() == oracle.top_k(probs, target, k)
    assert F.accuracy(probs.log(), target, top_k=k, from_logits=True).item() == oracle.top_k(probs.log(), target, k)


def test_top_k_agrees_with_scikit_learn(rng):
    from sklearn.metrics import top_k_accuracy_score

    probs, target = oracle.random_probs(300, 7, rng)
    assert F.accuracy(probs, target, top_k=3, from_logits=False).item() == pytest.approx(
        top_k_accuracy_score(target, probs, k=3, labels=range(7))
    )


@pytest.mark.parametrize(
    ("k", "message"), [(0, "top_k must be at least 1, got 0"), (3, "top_k must be at most the number of classes, 2, got 3")]
)
def test_bad_top_k(k, message):
    with pytest.raises(InvalidInput, match=message):
        F.accuracy(torch.tensor([[0.5, 0.5]]), torch.tensor([0]), top_k=k, from_logits=False)


def test_a_small_loss_survives_float32():
    """exp(-30) is nothing beside 1 in float32, and so is its square."""
    logits, target = torch.tensor([[30.0, 0.0]]), torch.tensor([0])
    assert F.negative_log_likelihood(logits, target, from_logits=True).item() == pytest.approx(math.log1p(math.exp(-30)), rel=1e-3)
    assert F.brier_score(logits, target, from_logits=True).item() == pytest.approx(2 * math.exp(-60), rel=1e-5)


def test_float32_agrees_with_float64(rng):
    logits = 3 * torch.randn(2000, 50, generator=rng)
    target = torch.randint(50, (2000,), generator=rng)
    for function in (F.negative_log_likelihood, F.brier_score, F.expected_calibration_error, F.classwise_calibration_error):
        single, double = (function(scores, target, from_logits=True).item() for scores in (logits, logits.double()))
        assert single == pytest.approx(double, rel=1e-6)
