"""Mixup training: cross-entropy against mixtures of labels, on mixed samples alone."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck
from torch.nn import functional as F

from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.methods import MixupTraining, cross_entropy_loss, label_mixture_loss
from rankmixup.mixers import CutMix, ManifoldMixup, Mixup
from rankmixup.types import Batch, Context
from tests.oracles import ConvNet, Spy, images, unchecked
from tests.oracles import rankmixup as oracle

DOUBLE = torch.float64
LOGITS = torch.tensor([[math.log(3), 0.0], [0.0, 0.0]])  # probabilities 3/4, 1/4 and 1/2, 1/2
OWN, OTHER, LAM = torch.tensor([0, 0]), torch.tensor([1, 0]), torch.tensor([0.75, 0.3])


def test_values_by_hand():
    # 3/4 ln(4/3) + 1/4 ln 4;  both labels are the same class: ln 2
    expected = [0.75 * math.log(4 / 3) + 0.25 * math.log(4), math.log(2)]
    assert label_mixture_loss(LOGITS, OWN, OTHER, LAM, reduction="none").tolist() == pytest.approx(expected)
    assert label_mixture_loss(LOGITS, OWN, OTHER, LAM, reduction="sum").item() == pytest.approx(sum(expected))
    assert label_mixture_loss(LOGITS, OWN, OTHER, LAM).item() == pytest.approx(sum(expected) / 2)


@settings(max_examples=50)
@given(st.data())
def test_agrees_with_the_loop_and_with_torch_on_soft_labels(data):
    size = data.draw(st.integers(1, 5))
    logits = data.draw(st.lists(st.lists(st.floats(-50, 50), min_size=3, max_size=3), min_size=size, max_size=size))
    own, other = (data.draw(st.lists(st.integers(0, 2), min_size=size, max_size=size)) for _ in range(2))
    lam = data.draw(st.lists(st.floats(0, 1), min_size=size, max_size=size))
    labels = [oracle.mixed_label(*row, 3) for row in zip(lam, own, other, strict=True)]
    z = torch.tensor(logits, dtype=DOUBLE)
    got = label_mixture_loss(z, torch.tensor(own), torch.tensor(other), torch.tensor(lam, dtype=DOUBLE), reduction="none")
    assert got.tolist() == pytest.approx([oracle.cross_entropy(*row) for row in zip(logits, labels, strict=True)], rel=1e-9, abs=1e-9)
    torch.testing.assert_close(got, F.cross_entropy(z, torch.tensor(labels, dtype=DOUBLE), reduction="none"))


def test_lambda_of_one_is_cross_entropy_and_of_zero_the_partners():
    assert torch.equal(label_mixture_loss(LOGITS, OWN, OTHER, torch.ones(2)), cross_entropy_loss(LOGITS, OWN))
    assert torch.equal(label_mixture_loss(LOGITS, OWN, OTHER, torch.zeros(2)), cross_entropy_loss(LOGITS, OTHER))


def test_gradient():
    logits = torch.randn(4, 3, dtype=DOUBLE, requires_grad=True)
    own, other = torch.tensor([0, 1, 2, 2]), torch.tensor([1, 1, 0, 2])
    assert gradcheck(lambda z: label_mixture_loss(z, own, other, torch.tensor([0.1, 0.5, 0.7, 1.0], dtype=DOUBLE)), logits)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits_give_a_loss_in_single_precision(dtype):
    assert label_mixture_loss(LOGITS.to(dtype), OWN, OTHER, LAM).dtype == torch.float32


@pytest.mark.parametrize("lam", [torch.full((2, 1), 0.5), torch.full((3,), 0.5)])
def test_a_lambda_of_another_shape_is_refused(lam):
    # Above all [B, 1], which against losses [B] would quietly broadcast to [B, B].
    with unchecked(), pytest.raises(InvalidInput, match="lam"):
        label_mixture_loss(LOGITS, OWN, OTHER, lam)


@pytest.mark.parametrize("position", [1, 2])
def test_a_label_out_of_range_is_refused_on_either_side(position):
    arguments = [LOGITS, OWN, OTHER, LAM]
    arguments[position] = torch.tensor([0, 2])
    with pytest.raises(InvalidInput, match=rf"^{['target', 'partner_target'][position - 1]} must lie in 0\.\.1, got 2$"):
        label_mixture_loss(*arguments)


@pytest.mark.parametrize("mixer", [Mixup(), Mixup(lam_mode="sample"), CutMix(), ManifoldMixup(layer="layer1")])
def test_method_is_the_cross_entropy_of_mixed_samples_against_mixed_labels(mixer):
    net, x, y = ConvNet(norm=False).double(), images(5, DOUBLE), torch.tensor([0, 1, 2, 0, 1])
    out = MixupTraining(mixer=mixer)(net, Batch(x, y), Context(random.stream(4), 3))
    mixed = mixer(net, x, random.stream(4), raw=False)
    torch.testing.assert_close(out.loss, F.cross_entropy(mixed.logits[0], mixed.soft_labels(3, y)[0].double()))


def test_raw_samples_are_never_forwarded(rng):
    spy, x = Spy(), torch.randn(5, 3)
    out = MixupTraining()(spy, Batch(x, torch.tensor([0, 1, 2, 0, 1])), Context(rng, 3))
    assert [len(batch) for batch in spy.seen] == [5]
    assert not torch.equal(spy.seen[0], x)
    assert out.logits is None
    assert MixupTraining().forwarded == 1


def test_default_alpha_is_the_supplements():
    assert MixupTraining().mixer == Mixup(alpha=0.2)
