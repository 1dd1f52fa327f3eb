import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchvision.ops import sigmoid_focal_loss

from rankmixup.errors import InvalidInput
from rankmixup.functional import cross_entropy_loss, flsd_loss, focal_loss
from rankmixup.methods import FLSD, Focal
from tests.oracles import losses as oracle


def test_focal_value_by_hand():
    # p_y = 1/4, gamma 3: (3/4)^3 ln 4.
    logits = torch.tensor([[math.log(3), 0.0]])
    assert focal_loss(logits, torch.tensor([1])).item() == pytest.approx(27 / 64 * math.log(4))


def test_flsd_value_by_hand():
    # p_y = 1/10 is below 0.2: (9/10)^5 ln 10. p_y = 1/4 and 3/4 are not: (3/4)^3 ln 4 and (1/4)^3 ln 4/3.
    logits = torch.tensor([[math.log(9), 0.0], [math.log(3), 0.0], [math.log(3), 0.0]])
    losses = flsd_loss(logits, torch.tensor([1, 1, 0]), reduction="none").tolist()
    assert losses == pytest.approx([0.9**5 * math.log(10), 27 / 64 * math.log(4), math.log(4 / 3) / 64])


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 3.0])
def test_focal_agrees_with_the_loop(rng, gamma):
    logits, target = oracle.batch(rng)
    ours = focal_loss(logits, target, gamma=gamma, reduction="none")
    torch.testing.assert_close(ours, oracle.each(oracle.focal, logits, target, gamma=gamma))


def test_flsd_agrees_with_the_loop(rng):
    logits, target = oracle.batch(rng, size=50)
    p = logits.softmax(dim=1).gather(1, target.unsqueeze(1))
    assert (p < 0.2).any()
    assert (p > 0.2).any()
    torch.testing.assert_close(flsd_loss(logits, target, reduction="none"), oracle.each(oracle.flsd, logits, target))


@pytest.mark.parametrize("gamma", [0.0, 2.0, 3.0])
def test_two_classes_are_torchvisions_sigmoid_focal_loss(rng, gamma):
    # A softmax over (0, z) is a sigmoid of z. With more classes the two differ: it sums K one-against-rest problems.
    z = torch.randn(9, generator=rng, dtype=torch.float64) * 3
    target = torch.randint(2, (9,), generator=rng)
    theirs = sigmoid_focal_loss(z, target.double(), alpha=-1, gamma=gamma)
    torch.testing.assert_close(focal_loss(torch.stack([torch.zeros_like(z), z], dim=1), target, gamma=gamma, reduction="none"), theirs)


def test_gamma_zero_is_cross_entropy(rng):
    logits, target = oracle.batch(rng)
    torch.testing.assert_close(focal_loss(logits, target, gamma=0.0), cross_entropy_loss(logits, target), rtol=0, atol=0)


@pytest.mark.parametrize("loss", [focal_loss, flsd_loss])
def test_reductions(rng, loss):
    logits, target = oracle.batch(rng)
    each = loss(logits, target, reduction="none")
    torch.testing.assert_close(loss(logits, target), each.mean())
    torch.testing.assert_close(loss(logits, target, reduction="sum"), each.sum())


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 3.0])
def test_focal_gradient(rng, gamma):
    logits, target = oracle.batch(rng)
    assert torch.autograd.gradcheck(lambda z: focal_loss(z, target, gamma=gamma, reduction="none"), logits.requires_grad_())


def test_flsd_gradient(rng):
    logits, target = oracle.batch(rng)
    assert torch.autograd.gradcheck(lambda z: flsd_loss(z, target, reduction="none"), logits.requires_grad_())


@given(oracle.batches(), st.floats(0, 5), st.floats(0, 5))
def test_a_larger_gamma_never_costs_more(batch, one, other):
    low, high = sorted([one, other])
    assert (focal_loss(*batch, gamma=high, reduction="none") <= focal_loss(*batch, gamma=low, reduction="none")).all()


@given(oracle.batches())
def test_flsd_is_one_of_two_focal_losses(batch):
    ours = flsd_loss(*batch, reduction="none")
    five, three = (focal_loss(*batch, gamma=gamma, reduction="none") for gamma in (5.0, 3.0))
    assert (ours.isclose(five, rtol=1e-12) | ours.isclose(three, rtol=1e-12)).all()


# p_y is exactly 1 in the first row, near 1 in the second, near 0 and exactly 0 in the last two.
EXTREMES = [[1e4, -1e4, 0.0], [17.0, 0.0, -5.0], [0.0, 90.0, 0.0], [-1e4, 1e4, 1e4]]


@pytest.mark.parametrize("gamma", [0.0, 0.1, 0.5, 1.0, 3.0, None])
def test_extreme_logits_stay_finite(gamma):
    logits = torch.tensor(EXTREMES, requires_grad=True)
    target = torch.zeros(4, dtype=torch.long)
    losses = flsd_loss(logits, target, reduction="none") if gamma is None else focal_loss(logits, target, gamma=gamma, reduction="none")
    losses.sum().backward()
    assert losses.isfinite().all()
    assert logits.grad.isfinite().all()
    assert losses[0] == 0
    assert losses[3].item() == pytest.approx(2e4 + math.log(2))


@pytest.mark.parametrize("loss", [focal_loss, flsd_loss])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_gives_a_float32_loss(rng, loss, dtype):
    logits, target = oracle.batch(rng)
    half = logits.to(dtype)
    assert loss(half, target).dtype == torch.float32
    assert loss(half, target) == loss(half.float(), target)


def test_the_methods_are_the_losses(rng):
    logits, target = oracle.batch(rng)
    assert Focal().gamma == 3.0
    assert Focal().loss(logits, target) == focal_loss(logits, target, gamma=3.0)
    assert Focal(gamma=1.0).loss(logits, target) == focal_loss(logits, target, gamma=1.0)
    assert FLSD().loss(logits, target) == flsd_loss(logits, target)


@pytest.mark.parametrize("gamma", [-1.0, math.nan])
def test_bad_gamma(rng, gamma):
    with pytest.raises(InvalidInput, match=f"gamma must be at least 0, got {gamma}"):
        focal_loss(*oracle.batch(rng), gamma=gamma)
    with pytest.raises(InvalidInput, match="gamma must"):
        Focal(gamma=gamma)


@pytest.mark.parametrize("loss", [focal_loss, flsd_loss])
def test_bad_target(rng, loss):
    logits, target = oracle.batch(rng)
    with pytest.raises(InvalidInput, match=r"target must lie in 0\.\.4, got -1"):
        loss(logits, torch.full_like(target, -1))
