"""Remix: labels that lean to the rarer class."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmixup import objective
from rankmixup.errors import InvalidInput
from rankmixup.methods import Remix, label_mixture_loss, remix_label_weight
from rankmixup.mixers import CutMix, ManifoldMixup, Mixer, Mixup
from rankmixup.random import stream
from rankmixup.testing import TinyNet, toy_batch
from tests.oracles import mixing as oracle

COUNTS = [900, 300, 100, 99]


def test_weights_by_hand() -> None:
    # n_i, n_j, lambda -> weight, with kappa 3 and tau 1/2:
    #   900, 300, 0.4: exactly 3 times as large, image below a half -> 0
    #   900, 300, 0.5: not below a half -> 0.5          900, 301, 0.4: less than 3 times -> 0.4
    #   300, 900, 0.6: the partner's is 3 times as large and its image 0.4 -> 1
    #   300, 900, 0.5: 1 - 0.5 is not below a half -> 0.5      300, 900, 0.4 -> 0.4      300, 300, 0.1 -> 0.1
    own = torch.tensor([900, 900, 900, 300, 300, 300, 300])
    other = torch.tensor([300, 300, 301, 900, 900, 900, 300])
    lam = torch.tensor([0.4, 0.5, 0.4, 0.6, 0.5, 0.4, 0.1])
    expected = torch.tensor([0.0, 0.5, 0.4, 1.0, 0.5, 0.4, 0.1])
    assert torch.equal(remix_label_weight(lam, own, other), expected)


@settings(max_examples=200)
@given(
    lam=st.floats(0, 1), own=st.integers(1, 5000), other=st.integers(1, 5000),
    kappa=st.sampled_from([1.5, 2.0, 3.0, 4.0, 10.0]), tau=st.floats(0, 1),
)  # fmt: skip
def test_agrees_with_the_naive_rule(lam: float, own: int, other: int, kappa: float, tau: float) -> None:
    weight = remix_label_weight(torch.tensor([lam], dtype=torch.float64), torch.tensor([own]), torch.tensor([other]), kappa=kappa, tau=tau)
    if own * kappa != other and other * kappa != own:  # there a ratio of floats may round to either side
        assert weight.item() == oracle.remix_weight(lam, own, other, kappa, tau)


@settings(max_examples=100)
@given(lam=st.floats(0, 1), own=st.integers(1, 5000), other=st.integers(1, 5000))
def test_the_rarer_class_never_loses(lam: float, own: int, other: int) -> None:
    share = torch.tensor([lam], dtype=torch.float64)
    weight = remix_label_weight(share, torch.tensor([own]), torch.tensor([other])).item()
    assert weight <= lam if own >= other else weight >= lam
    # What the pair gives up on one side it gains on the other.
    mirrored = remix_label_weight(1 - share, torch.tensor([other]), torch.tensor([own])).item()
    if own != other:
        assert weight + mirrored == pytest.approx(1)


@pytest.mark.parametrize("mixer", [Mixup(), CutMix(), ManifoldMixup()], ids=lambda mixer: mixer.name)
def test_a_step_is_mixup_with_other_label_weights(mixer: Mixer) -> None:
    model, batch, method = TinyNet(), toy_batch(), Remix(mixer=mixer)
    losses, loops = [], []
    for seed in range(6):
        out = objective(method, 4, seed=seed, class_counts=COUNTS)(model, batch.x, batch.y)
        mixed = mixer(model, batch.x, stream(seed, "mixing", 0), raw=False)
        rows = zip(mixed.logits[0].tolist(), batch.y.tolist(), mixed.partner[0].tolist(), mixed.lam[0].tolist(), strict=True)
        expected = []
        for row, own, partner, lam in rows:
            other = int(batch.y[partner])
            weight = oracle.remix_weight(lam, COUNTS[own], COUNTS[other], 3.0, 0.5)
            expected.append(oracle.mixture(row, own, other, weight))
        losses.append(out.loss.item())
        loops.append(sum(expected) / len(expected))
        assert out.logits is None
    assert losses == pytest.approx(loops, abs=1e-5)


def test_equal_classes_are_plain_mixup() -> None:
    model, batch, mixer = TinyNet(), toy_batch(), Mixup()
    out = objective(Remix(), 4, class_counts=[50] * 4)(model, batch.x, batch.y)
    mixed = mixer(model, batch.x, stream(0, "mixing", 0), raw=False)
    torch.testing.assert_close(out.loss, label_mixture_loss(mixed.logits[0], batch.y, batch.y[mixed.partner[0]], mixed.lam[0]))


def test_gradcheck() -> None:
    rng = stream(0, "remix")
    logits = torch.randn(4, 3, generator=rng, dtype=torch.float64, requires_grad=True)
    own, other = torch.tensor([0, 1, 2, 0]), torch.tensor([1, 0, 0, 0])
    counts = torch.tensor([900, 300, 100])
    lam = torch.tensor([0.4, 0.6, 0.3, 0.2], dtype=torch.float64)
    weight = remix_label_weight(lam, counts[own], counts[other])
    assert weight.tolist() == [0.0, 1.0, 0.3, 0.2]
    assert torch.autograd.gradcheck(lambda z: label_mixture_loss(z, own, other, weight), logits)


def test_rule_is_configurable() -> None:
    assert (Remix().kappa, Remix().tau, Remix().mixer) == (3.0, 0.5, Mixup(alpha=1.0))
    lam, own, other = torch.tensor([0.4]), torch.tensor([40]), torch.tensor([10])
    assert remix_label_weight(lam, own, other).item() == 0
    assert remix_label_weight(lam, own, other, kappa=5.0).item() == pytest.approx(0.4)
    assert remix_label_weight(lam, own, other, tau=0.3).item() == pytest.approx(0.4)


def test_bad_input() -> None:
    model, batch = TinyNet(), toy_batch()
    with pytest.raises(InvalidInput, match=r"^remix needs the training images of each class: class_counts must be given, got None$"):
        objective(Remix(), 4)(model, batch.x, batch.y)
    with pytest.raises(InvalidInput, match=r"^class_counts must be positive for every class of the batch, got 0 for class 2$"):
        objective(Remix(), 4, class_counts=[1, 1, 0, 1])(model, batch.x, torch.full_like(batch.y, 2))
    with pytest.raises(InvalidInput, match=r"^kappa must be at least 1, got 0.5$"):
        Remix(kappa=0.5)
    for tau in (-0.1, 1.5):
        with pytest.raises(InvalidInput, match=rf"^tau must lie in 0..1, got {tau}$"):
            Remix(tau=tau)
    assert math.isfinite(objective(Remix(), 4, class_counts=[1, 1, 0, 1])(model, batch.x, torch.zeros_like(batch.y)).loss.item())
