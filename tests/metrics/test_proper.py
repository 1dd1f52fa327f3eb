import math

import pytest
import torch

from rankmixup import functional as F
from tests.oracles import metrics as oracle


def test_agree_with_loops(rng):
    probs, target = oracle.random_probs(200, 7, rng)
    assert F.negative_log_likelihood(probs, target).item() == pytest.approx(oracle.nll(probs, target), abs=1e-12)
    assert F.brier_score(probs, target).item() == pytest.approx(oracle.brier(probs, target), abs=1e-12)
    assert F.accuracy(probs, target).item() == sum(correct for _, correct in oracle.top(probs, target)) / 200


def test_values_by_hand():
    probs, target = torch.tensor([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]], dtype=torch.float64), torch.tensor([1, 1])
    assert F.accuracy(probs, target).item() == 0.5
    assert F.negative_log_likelihood(probs, target).item() == pytest.approx(math.log(4) / 2)
    assert F.brier_score(probs, target).item() == pytest.approx((0.25 + 0.5625 + 0.0625) / 2)


def test_agree_with_scikit_learn(rng):
    from sklearn.metrics import accuracy_score, log_loss

    probs, target = oracle.random_probs(200, 7, rng)
    assert F.negative_log_likelihood(probs, target).item() == pytest.approx(log_loss(target, probs, labels=range(7)))
    assert F.accuracy(probs, target).item() == pytest.approx(accuracy_score(target, probs.argmax(1)))


def test_nll_of_extreme_logits_is_exact():
    logits = torch.tensor([[1000.0, 0.0]], dtype=torch.float32)
    assert F.negative_log_likelihood(logits, torch.tensor([1]), from_logits=True).item() == 1000
