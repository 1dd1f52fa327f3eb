import math

import pytest
import torch
from hypothesis import given
from torch.distributions import Categorical  # noqa: TID251 - a second opinion on the entropy; nothing is drawn

from rankmixup.errors import InvalidInput
from rankmixup.functional import cross_entropy_loss, entropy_penalty_loss
from rankmixup.methods import EntropyPenalty
from tests.oracles import losses as oracle


def test_value_by_hand():
    # Probabilities 1/2, 1/4, 1/4: H = ln 2 / 2 + ln 4 / 2 = 1.5 ln 2, and cross-entropy ln 4 for the second class.
    logits, target = torch.tensor([[math.log(2), 0.0, 0.0]]), torch.tensor([1])
    assert entropy_penalty_loss(logits, target).item() == pytest.approx(1.85 * math.log(2))
    assert entropy_penalty_loss(logits, target, per_class=True).item() == pytest.approx(1.95 * math.log(2))


@pytest.mark.parametrize("per_class", [False, True])
def test_agrees_with_the_loop(rng, per_class):
    logits, target = oracle.batch(rng)
    ours = entropy_penalty_loss(logits, target, weight=0.3, per_class=per_class, reduction="none")
    torch.testing.assert_close(ours, oracle.each(oracle.entropy_penalty, logits, target, weight=0.3, per_class=per_class))


def test_agrees_with_torchs_entropy(rng):
    logits, target = oracle.batch(rng)
    expected = cross_entropy_loss(logits, target, reduction="none") - 0.1 * Categorical(logits=logits).entropy()
    torch.testing.assert_close(entropy_penalty_loss(logits, target, reduction="none"), expected)


def test_per_class_is_a_weight_k_times_smaller(rng):
    logits, target = oracle.batch(rng, classes=10)
    released = entropy_penalty_loss(logits, target, weight=0.1, per_class=True)
    torch.testing.assert_close(released, entropy_penalty_loss(logits, target, weight=0.01))


def test_reductions(rng):
    logits, target = oracle.batch(rng)
    each = entropy_penalty_loss(logits, target, reduction="none")
    torch.testing.assert_close(entropy_penalty_loss(logits, target), each.mean())
    torch.testing.assert_close(entropy_penalty_loss(logits, target, reduction="sum"), each.sum())


@pytest.mark.parametrize("per_class", [False, True])
def test_gradient(rng, per_class):
    logits, target = oracle.batch(rng)
    assert torch.autograd.gradcheck(
        lambda z: entropy_penalty_loss(z, target, weight=0.5, per_class=per_class, reduction="none"), logits.requires_grad_()
    )


@given(oracle.batches())
def test_the_entropy_lies_between_nothing_and_log_k(batch):
    logits, _ = batch
    entropy = cross_entropy_loss(*batch, reduction="none") - entropy_penalty_loss(*batch, weight=1.0, reduction="none")
    assert (entropy >= -1e-9).all()
    assert (entropy <= math.log(logits.shape[1]) + 1e-9).all()


@pytest.mark.parametrize("per_class", [False, True])
def test_extreme_logits_stay_finite(per_class):
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 1e4]], requires_grad=True)
    losses = entropy_penalty_loss(logits, torch.tensor([0, 0]), per_class=per_class, reduction="none")
    losses.sum().backward()
    assert losses.isfinite().all()
    assert losses[0] == 0
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_gives_a_float32_loss(rng, dtype):
    logits, target = oracle.batch(rng)
    half = logits.to(dtype)
    assert entropy_penalty_loss(half, target).dtype == torch.float32
    assert entropy_penalty_loss(half, target) == entropy_penalty_loss(half.float(), target)


def test_the_method_is_the_loss(rng):
    logits, target = oracle.batch(rng)
    assert EntropyPenalty() == EntropyPenalty(weight=0.1, per_class=False)
    assert EntropyPenalty().loss(logits, target) == entropy_penalty_loss(logits, target, weight=0.1, per_class=False)
    released = EntropyPenalty(weight=0.2, per_class=True)
    assert released.loss(logits, target) == entropy_penalty_loss(logits, target, weight=0.2, per_class=True)


@pytest.mark.parametrize("weight", [-0.1, math.nan])
def test_bad_weight(rng, weight):
    with pytest.raises(InvalidInput, match=f"weight must be at least 0, got {weight}"):
        entropy_penalty_loss(*oracle.batch(rng), weight=weight)
    with pytest.raises(InvalidInput, match="weight must"):
        EntropyPenalty(weight=weight)


def test_bad_target(rng):
    logits, target = oracle.batch(rng)
    with pytest.raises(InvalidInput, match=r"target must lie in 0\.\.4, got 5"):
        entropy_penalty_loss(logits, torch.full_like(target, 5))
