import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from rankmixup.errors import InvalidInput
from rankmixup.functional import cross_entropy_loss, label_smoothing_loss
from rankmixup.methods import LabelSmoothing
from tests.oracles import losses as oracle


def test_value_by_hand():
    # Probabilities 1/2, 1/4, 1/4 and smoothing 0.3: 0.7 ln 2 + 0.1 (ln 2 + ln 4 + ln 4) = 1.2 ln 2.
    logits = torch.tensor([[math.log(2), 0.0, 0.0]])
    loss = label_smoothing_loss(logits, torch.tensor([0]), smoothing=0.3)
    assert loss.item() == pytest.approx(1.2 * math.log(2))


@pytest.mark.parametrize("smoothing", [0.0, 0.05, 0.2, 1.0])
def test_agrees_with_the_loop_and_with_torch(rng, smoothing):
    logits, target = oracle.batch(rng)
    ours = label_smoothing_loss(logits, target, smoothing=smoothing, reduction="none")
    torch.testing.assert_close(ours, oracle.each(oracle.label_smoothing, logits, target, smoothing=smoothing))
    mean = label_smoothing_loss(logits, target, smoothing=smoothing)
    torch.testing.assert_close(mean, F.cross_entropy(logits, target, label_smoothing=smoothing))


def test_without_smoothing_is_cross_entropy(rng):
    logits, target = oracle.batch(rng)
    assert label_smoothing_loss(logits, target, smoothing=0.0) == cross_entropy_loss(logits, target)


def test_reductions(rng):
    logits, target = oracle.batch(rng)
    each = label_smoothing_loss(logits, target, reduction="none")
    torch.testing.assert_close(label_smoothing_loss(logits, target), each.mean())
    torch.testing.assert_close(label_smoothing_loss(logits, target, reduction="sum"), each.sum())


def test_gradient(rng):
    logits, target = oracle.batch(rng)
    assert torch.autograd.gradcheck(lambda z: label_smoothing_loss(z, target, reduction="none"), logits.requires_grad_())


@given(oracle.batches(), st.floats(0.01, 0.99))
def test_never_below_the_entropy_of_the_smoothed_label(batch, smoothing):
    logits, target = batch
    spread = smoothing / logits.shape[1]
    own = 1 - smoothing + spread
    entropy = -own * math.log(own) - (logits.shape[1] - 1) * spread * math.log(spread)
    assert (label_smoothing_loss(logits, target, smoothing=smoothing, reduction="none") >= entropy - 1e-9).all()


def test_extreme_logits_stay_finite():
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 1e4]], requires_grad=True)
    loss = label_smoothing_loss(logits, torch.tensor([0, 0]))
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_gives_a_float32_loss(rng, dtype):
    logits, target = oracle.batch(rng)
    half = logits.to(dtype)
    loss = label_smoothing_loss(half, target)
    assert loss.dtype == torch.float32
    assert loss == label_smoothing_loss(half.float(), target)


def test_the_method_is_the_loss_with_the_supplements_value(rng):
    logits, target = oracle.batch(rng)
    assert LabelSmoothing().smoothing == 0.05
    assert LabelSmoothing().loss(logits, target) == label_smoothing_loss(logits, target, smoothing=0.05)
    assert LabelSmoothing(smoothing=0.2).loss(logits, target) == label_smoothing_loss(logits, target, smoothing=0.2)


@pytest.mark.parametrize("smoothing", [-0.1, 1.1, math.nan])
def test_bad_smoothing(rng, smoothing):
    with pytest.raises(InvalidInput, match=f"smoothing must lie in 0..1, got {smoothing}"):
        label_smoothing_loss(*oracle.batch(rng), smoothing=smoothing)
    with pytest.raises(InvalidInput, match="smoothing must"):
        LabelSmoothing(smoothing=smoothing)


def test_bad_target(rng):
    logits, target = oracle.batch(rng)
    with pytest.raises(InvalidInput, match=r"target must lie in 0\.\.4, got 5"):
        label_smoothing_loss(logits, torch.full_like(target, 5))
