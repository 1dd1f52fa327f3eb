"""RegMixup: cross-entropy on raw samples and on label mixtures, halved or summed."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmixup import objective
from rankmixup.errors import InvalidInput
from rankmixup.methods import RegMixup, cross_entropy_loss, label_mixture_loss, regmixup_loss
from rankmixup.mixers import CutMix, ManifoldMixup, Mixer, Mixup
from rankmixup.random import stream
from rankmixup.testing import TinyNet, toy_batch
from tests.oracles import mixing as oracle
from tests.oracles import unchecked

Case = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def random_case(seed: int, size: int = 5) -> Case:
    """Raw and mixed logits, labels and partners."""
    rng = stream(seed, "regmixup")
    raw, mixed = torch.randn(2, size, 4, generator=rng, dtype=torch.float64)
    return raw, mixed, torch.randint(4, (size,), generator=rng), torch.randint(size, (size,), generator=rng)


def test_value_by_hand() -> None:
    # Raw probabilities (1/2, 1/2), label 0: CE = ln 2.
    # Mixed probabilities (1/4, 3/4), labels 0 and 1, lambda 3/4: MCE = 3/4 ln 4 + 1/4 ln 4/3.
    raw = torch.zeros(1, 2, dtype=torch.float64)
    mixed = torch.tensor([[0.25, 0.75]], dtype=torch.float64).log()
    labels = torch.tensor([0]), torch.tensor([1]), torch.tensor([0.75], dtype=torch.float64)
    ce, mce = math.log(2), 0.75 * math.log(4) + 0.25 * math.log(4 / 3)
    assert regmixup_loss(raw, mixed, *labels).item() == pytest.approx((ce + mce) / 2)
    assert regmixup_loss(raw, mixed, *labels, weighting="sum").item() == pytest.approx(ce + mce)
    assert regmixup_loss(raw, mixed, *labels, weighting="sum", eta=0.5).item() == pytest.approx(ce + mce / 2)


@settings(max_examples=50)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 7), lam=st.floats(0, 1))
def test_half_is_the_joint_mean_of_the_release(seed: int, size: int, lam: float) -> None:
    raw, mixed, target, partner = random_case(seed, size)
    loss = regmixup_loss(raw, mixed, target, target[partner], torch.full((size,), lam, dtype=torch.float64))
    expected = oracle.regmixup_half(raw.tolist(), mixed.tolist(), target.tolist(), partner.tolist(), lam)
    assert loss.item() == pytest.approx(expected, abs=1e-10)


@settings(max_examples=50)
@given(seed=st.integers(0, 10**6), eta=st.floats(0, 10))
def test_sum_is_cross_entropy_plus_eta_mixture(seed: int, eta: float) -> None:
    raw, mixed, target, partner = random_case(seed)
    lam = torch.rand(5, generator=stream(seed, "lam"), dtype=torch.float64)
    losses = regmixup_loss(raw, mixed, target, target[partner], lam, weighting="sum", eta=eta, reduction="none")
    rows = zip(raw.tolist(), mixed.tolist(), target.tolist(), target[partner].tolist(), lam.tolist(), strict=True)
    expected = [oracle.cross_entropy(z, own) + eta * oracle.mixture(m, own, other, share) for z, m, own, other, share in rows]
    assert losses.tolist() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("weighting", ["half", "sum"])
def test_gradcheck(weighting: str) -> None:
    raw, mixed, target, partner = random_case(0)
    lam = torch.full((5,), 0.3, dtype=torch.float64)
    inputs = raw.clone().requires_grad_(), mixed.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda z, m: regmixup_loss(z, m, target, target[partner], lam, weighting=weighting), inputs)


@pytest.mark.parametrize("mixer", [RegMixup().mixer, Mixup(alpha=10.0), CutMix(), ManifoldMixup()], ids=lambda mixer: mixer.name)
@pytest.mark.parametrize("weighting", ["half", "sum"])
def test_a_step_is_its_loss_on_one_mix(mixer: Mixer, weighting: str) -> None:
    method, model, batch = RegMixup(mixer=mixer, weighting=weighting), TinyNet(), toy_batch()
    out = objective(method, 4, seed=7)(model, batch.x, batch.y)
    mixed = mixer(model, batch.x, stream(7, "mixing", 0))  # the step's own stream from its start
    labels = batch.y, batch.y[mixed.partner[0]], mixed.lam[0]
    torch.testing.assert_close(out.logits, mixed.raw)
    torch.testing.assert_close(out.loss, regmixup_loss(mixed.raw, mixed.logits[0], *labels, weighting=weighting))
    torch.testing.assert_close(out.terms["ce"], cross_entropy_loss(mixed.raw, batch.y).detach())
    torch.testing.assert_close(out.terms["mixture"], label_mixture_loss(mixed.logits[0], *labels).detach())


def test_defaults_and_cost() -> None:
    assert RegMixup().mixer == Mixup(alpha=10.0, forward="joint")
    assert RegMixup().weighting == "half"
    assert RegMixup().forwarded == 2
    assert RegMixup(mixer=ManifoldMixup()).forwarded == 1


def test_default_is_one_joint_forward() -> None:
    model, sizes, batch = TinyNet(), [], toy_batch()
    model.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
    objective(RegMixup(), 4)(model, batch.x, batch.y)
    assert sizes == [16]


def test_bad_input() -> None:
    raw, mixed, target, partner = random_case(0)
    lam = torch.ones(5, dtype=torch.float64)
    with pytest.raises(InvalidInput, match=r"^eta must be at least 0, got -1.0$"):
        regmixup_loss(raw, mixed, target, target[partner], lam, weighting="sum", eta=-1.0)
    with pytest.raises(InvalidInput, match=r"^eta weighs the mixed term of weighting='sum' and must stay 1 for 'half', got 2.0$"):
        RegMixup(eta=2.0)
    with unchecked():
        with pytest.raises(InvalidInput, match=r"^unknown RegMixup.weighting 'halves'; did you mean 'half'\?$"):
            RegMixup(weighting="halves")
        with pytest.raises(InvalidInput, match=r"^weighting must be 'half' or 'sum', got 'halves'$"):
            regmixup_loss(raw, mixed, target, target[partner], lam, weighting="halves")
