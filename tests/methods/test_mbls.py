import math

import pytest
import torch
from hypothesis import given

from rankmixup.errors import InvalidInput
from rankmixup.functional import cross_entropy_loss, mbls_loss
from rankmixup.methods import MbLS
from tests.oracles import losses as oracle


def test_value_by_hand():
    # Distances 0, 8, 9 from the largest logit, margin 6: (0 + 2 + 3) / 3, times 0.1. Cross-entropy ln(1 + e^-8 + e^-9).
    logits = torch.tensor([[9.0, 1.0, 0.0]], dtype=torch.float64)
    expected = math.log(1 + math.exp(-8) + math.exp(-9)) + 0.1 * 5 / 3
    assert mbls_loss(logits, torch.tensor([0])).item() == pytest.approx(expected)


@pytest.mark.parametrize("margin", [0.0, 2.0, 6.0])
def test_agrees_with_the_loop(rng, margin):
    logits, target = oracle.batch(rng)
    ours = mbls_loss(logits, target, margin=margin, weight=0.3, reduction="none")
    torch.testing.assert_close(ours, oracle.each(oracle.mbls, logits, target, margin=margin, weight=0.3))


@pytest.mark.parametrize(("margin", "weight"), [(1e6, 0.1), (0.0, 0.0)])
def test_a_wide_margin_or_no_weight_is_cross_entropy(rng, margin, weight):
    logits, target = oracle.batch(rng)
    assert mbls_loss(logits, target, margin=margin, weight=weight) == cross_entropy_loss(logits, target)


def test_the_gradient_flows_through_the_largest_logit():
    # Two of three logits lie beyond the margin: the largest is pulled down by 2/3, each of them up by 1/3.
    logits = torch.tensor([[9.0, 1.0, 0.0]], requires_grad=True)
    target = torch.tensor([0])
    penalty = mbls_loss(logits, target, weight=1.0) - mbls_loss(logits, target, weight=0.0)
    (gradient,) = torch.autograd.grad(penalty, logits)
    torch.testing.assert_close(gradient, torch.tensor([[2.0, -1.0, -1.0]]) / 3)


def test_reductions(rng):
    logits, target = oracle.batch(rng)
    each = mbls_loss(logits, target, reduction="none")
    torch.testing.assert_close(mbls_loss(logits, target), each.mean())
    torch.testing.assert_close(mbls_loss(logits, target, reduction="sum"), each.sum())


def test_gradient(rng):
    logits, target = oracle.batch(rng)
    assert torch.autograd.gradcheck(lambda z: mbls_loss(z, target, margin=2.0, reduction="none"), logits.requires_grad_())


@given(oracle.batches())
def test_the_penalty_is_none_within_the_margin_and_grows_as_it_shrinks(batch):
    logits, _ = batch
    ce = cross_entropy_loss(*batch, reduction="none")
    penalties = [mbls_loss(*batch, margin=margin, weight=1.0, reduction="none") - ce for margin in (0.0, 6.0, 10.0)]
    assert (penalties[0] >= penalties[1]).all()
    assert (penalties[1] >= penalties[2]).all()
    within = logits.max(dim=1).values - logits.min(dim=1).values <= 6
    assert (penalties[1][within] == 0).all()


def test_extreme_logits_stay_finite():
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 1e4]], requires_grad=True)
    loss = mbls_loss(logits, torch.tensor([0, 0]))
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_gives_a_float32_loss(rng, dtype):
    logits, target = oracle.batch(rng)
    half = logits.to(dtype)
    assert mbls_loss(half, target).dtype == torch.float32
    assert mbls_loss(half, target) == mbls_loss(half.float(), target)


def test_the_method_is_the_loss(rng):
    logits, target = oracle.batch(rng)
    assert MbLS() == MbLS(margin=6.0, weight=0.1)
    assert MbLS().loss(logits, target) == mbls_loss(logits, target, margin=6.0, weight=0.1)
    assert MbLS(margin=1.0, weight=0.5).loss(logits, target) == mbls_loss(logits, target, margin=1.0, weight=0.5)


@pytest.mark.parametrize("value", [-1.0, math.nan])
@pytest.mark.parametrize("name", ["margin", "weight"])
def test_bad_options(rng, name, value):
    with pytest.raises(InvalidInput, match=f"{name} must be at least 0, got {value}"):
        mbls_loss(*oracle.batch(rng), **{name: value})
    with pytest.raises(InvalidInput, match=f"{name} must"):
        MbLS(**{name: value})


def test_bad_target(rng):
    logits, target = oracle.batch(rng)
    with pytest.raises(InvalidInput, match=r"target must lie in 0\.\.4, got 5"):
        mbls_loss(logits, torch.full_like(target, 5))
