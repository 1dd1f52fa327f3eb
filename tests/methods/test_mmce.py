import math

import pytest
import torch
from hypothesis import given

from rankmixup.errors import InvalidInput
from rankmixup.functional import cross_entropy_loss, mmce_loss
from rankmixup.methods import MMCE
from tests.oracles import losses as oracle

FORMS = ["squared", "weighted"]


def term(logits, target, form):
    """The calibration term alone."""
    return (mmce_loss(logits, target, form=form) - cross_entropy_loss(logits, target)).item()


def test_squared_by_hand():
    # Confidences 3/4 (right) and 1/2 (wrong): residuals 1/4 and -1/2, kernel exp(-0.25 / 0.4) between them.
    # (1/16 + 1/4 - 2/8 exp(-0.625)) / 4.
    logits = torch.tensor([[math.log(3), 0.0], [0.0, 0.0]], dtype=torch.float64)
    expected = (1 / 16 + 1 / 4 - math.exp(-0.625) / 4) / 4
    assert term(logits, torch.tensor([0, 1]), "squared") == pytest.approx(expected)


def test_weighted_by_hand():
    # Confidence 3/4 three times, so every kernel is 1; two right, one wrong. The means are P = 1/16, Q = 9/16, R = 3/16, and
    # P/4 + Q/1 - 2R/2 = 25/64. Normalised once, as MMCE_w is written, it would be P + Q - 2R = 16/64.
    logits = torch.tensor([[math.log(3), 0.0]], dtype=torch.float64).repeat(3, 1)
    assert term(logits, torch.tensor([0, 0, 1]), "weighted") == pytest.approx(5 / 8, abs=1e-4)


@pytest.mark.parametrize("size", [1, 2, 30])
def test_agrees_with_the_loop(rng, size):
    logits, target = oracle.batch(rng, size=size, classes=3)
    ce = oracle.each(oracle.cross_entropy, logits, target).mean()
    squared, weighted = oracle.mmce_squared(logits, target), oracle.mmce_weighted(logits, target)
    torch.testing.assert_close(mmce_loss(logits, target, weight=2.0), ce + 2 * squared)
    torch.testing.assert_close(mmce_loss(logits, target, weight=2.0, form="weighted"), ce + 2 * weighted)


@pytest.mark.parametrize("form", FORMS)
def test_without_weight_is_cross_entropy(rng, form):
    logits, target = oracle.batch(rng)
    assert mmce_loss(logits, target, weight=0.0, form=form) == cross_entropy_loss(logits, target)


def test_reductions(rng):
    logits, target = oracle.batch(rng)
    each = mmce_loss(logits, target, reduction="none")
    assert each.shape == target.shape
    torch.testing.assert_close(mmce_loss(logits, target), each.mean())
    torch.testing.assert_close(mmce_loss(logits, target, reduction="sum"), each.sum())


def test_the_weighted_form_belongs_to_the_batch(rng):
    logits, target = oracle.batch(rng)
    mean, total = (mmce_loss(logits, target, form="weighted", reduction=reduction) for reduction in ("mean", "sum"))
    torch.testing.assert_close(total, len(target) * mean)
    with pytest.raises(InvalidInput, match=r"reduction must be 'mean' or 'sum' for the form 'weighted', .*, got 'none'"):
        mmce_loss(logits, target, form="weighted", reduction="none")


def test_squared_gradient(rng):
    logits, target = oracle.batch(rng)
    assert torch.autograd.gradcheck(lambda z: mmce_loss(z, target, reduction="none"), logits.requires_grad_())


def test_weighted_gradient(rng):
    logits, target = oracle.batch(rng, classes=3)
    correct = logits.argmax(dim=1) == target
    assert correct.any()
    assert not correct.all()
    assert torch.autograd.gradcheck(lambda z: mmce_loss(z, target, form="weighted"), logits.requires_grad_())


@pytest.mark.parametrize("right", [True, False])
def test_the_weighted_form_is_nothing_when_all_or_none_are_right(rng, right):
    logits, _ = oracle.batch(rng)
    target = logits.argmax(dim=1) if right else logits.argmin(dim=1)
    logits.requires_grad_()
    loss, ce = mmce_loss(logits, target, form="weighted"), cross_entropy_loss(logits, target)
    assert loss == ce
    torch.testing.assert_close(torch.autograd.grad(loss, logits), torch.autograd.grad(ce, logits))


def test_the_weighted_form_survives_a_vanishing_root():
    # Equal confidences of 1/2, as many right as wrong: P + Q - 2R is 0 but for rounding, where a root has no slope.
    logits = torch.zeros(6, 2, requires_grad=True)
    loss = mmce_loss(logits, torch.tensor([0, 1] * 3), form="weighted")
    loss.backward()
    assert loss.item() == pytest.approx(math.log(2), abs=1e-3)
    assert logits.grad.isfinite().all()


@given(oracle.batches())
def test_the_term_is_never_negative_and_knows_no_order(batch):
    logits, target = batch
    for form in FORMS:
        value = term(logits, target, form)
        assert value >= -1e-12
        assert term(logits.flip(0), target.flip(0), form) == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_extreme_logits_stay_finite(form):
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 1e4], [0.0, 0.0, 1e4]], requires_grad=True)
    loss = mmce_loss(logits, torch.tensor([0, 0, 2]), form=form)
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_gives_a_float32_loss(rng, form, dtype):
    logits, target = oracle.batch(rng)
    half = logits.to(dtype)
    assert mmce_loss(half, target, form=form).dtype == torch.float32
    assert mmce_loss(half, target, form=form) == mmce_loss(half.float(), target, form=form)


@pytest.mark.parametrize("form", FORMS)
def test_autocast_changes_nothing(rng, form):
    logits, target = oracle.batch(rng)
    logits = logits.float()
    with torch.autocast("cpu", torch.bfloat16):
        inside = mmce_loss(logits, target, form=form)
    assert inside == mmce_loss(logits, target, form=form)


def test_the_method_is_the_loss(rng):
    logits, target = oracle.batch(rng)
    assert MMCE() == MMCE(weight=1.0, form="squared")
    assert MMCE().loss(logits, target) == mmce_loss(logits, target, weight=1.0, form="squared")
    assert MMCE(weight=2.0, form="weighted").loss(logits, target) == mmce_loss(logits, target, weight=2.0, form="weighted")


@pytest.mark.parametrize("weight", [-1.0, math.nan])
def test_bad_weight(rng, weight):
    with pytest.raises(InvalidInput, match=f"weight must be at least 0, got {weight}"):
        mmce_loss(*oracle.batch(rng), weight=weight)
    with pytest.raises(InvalidInput, match="weight must"):
        MMCE(weight=weight)


def test_bad_target(rng):
    logits, target = oracle.batch(rng)
    with pytest.raises(InvalidInput, match=r"target must lie in 0\.\.4, got 5"):
        mmce_loss(logits, torch.full_like(target, 5))
