"""Cross-entropy: values by hand, torch's own as a second opinion, and what is refused."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck
from torch.nn import functional as F

from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.methods import CrossEntropy, cross_entropy_loss
from rankmixup.types import Batch, Context
from tests.oracles import Spy, unchecked
from tests.oracles import rankmixup as oracle

LOGITS, TARGET = torch.tensor([[math.log(3), 0.0], [0.0, 0.0]]), torch.tensor([1, 0])  # probabilities of the target 1/4 and 1/2


def test_values_by_hand():
    assert cross_entropy_loss(LOGITS, TARGET, reduction="none").tolist() == pytest.approx([math.log(4), math.log(2)])
    assert cross_entropy_loss(LOGITS, TARGET, reduction="sum").item() == pytest.approx(math.log(8))
    assert cross_entropy_loss(LOGITS, TARGET).item() == pytest.approx(math.log(8) / 2)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.lists(st.floats(-50, 50), min_size=3, max_size=3), st.integers(0, 2)), min_size=1, max_size=5))
def test_agrees_with_the_loop(rows):
    logits, target = zip(*rows, strict=True)
    got = cross_entropy_loss(torch.tensor(logits, dtype=torch.float64), torch.tensor(target), reduction="none")
    expected = [oracle.cross_entropy(row, oracle.mixed_label(1.0, y, y, 3)) for row, y in rows]
    assert got.tolist() == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_gradient():
    logits = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda z: cross_entropy_loss(z, torch.tensor([0, 2, 1, 1])), logits)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits_give_a_loss_in_single_precision(dtype):
    logits = torch.randn(4, 3).to(dtype)
    loss = cross_entropy_loss(logits, torch.tensor([0, 2, 1, 1]))
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, F.cross_entropy(logits.float(), torch.tensor([0, 2, 1, 1])))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16])
def test_labels_may_be_integers_of_any_width(dtype):
    assert cross_entropy_loss(LOGITS, TARGET.to(dtype)).item() == pytest.approx(math.log(8) / 2)


def test_method_forwards_the_raw_batch_once_and_draws_nothing(rng):
    spy, before = Spy(), rng.get_state()
    out = CrossEntropy()(spy, Batch(LOGITS, TARGET), Context(rng, num_classes=2))
    assert [len(batch) for batch in spy.seen] == [2]
    assert out.loss.item() == pytest.approx(math.log(8) / 2)
    assert torch.equal(out.logits, LOGITS)
    assert CrossEntropy().forwarded == 1
    assert torch.equal(rng.get_state(), before)


@pytest.mark.parametrize(
    ("logits", "target", "message"),
    [
        (LOGITS, torch.tensor([0, 2]), r"^target must lie in 0\.\.1, got 2$"),
        (LOGITS, torch.tensor([-1, 1]), r"^target must lie in 0\.\.1, got -1$"),
        (LOGITS, torch.tensor([0, 1, 1]), r"^target must hold one class index .* got shapes? \[3\]"),
        (LOGITS, torch.tensor([[0], [1]]), r"^target must hold one class index .* got shapes? \[2, 1\]"),
        (
            LOGITS,
            torch.tensor([0.0, 1.0]),
            r"^target must hold class indices, got dtype torch\.float32; this library is for single-label classification",
        ),
        (LOGITS, torch.tensor([False, True]), r"^target must hold class indices, got dtype torch\.bool$"),
        (LOGITS[0], TARGET[:1], r"^logits must have shape \[B, K\], got \[2\]$"),
        (LOGITS[:0], TARGET[:0], r"^logits must hold at least one sample, got an empty batch$"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(logits, target, message):
    with unchecked(), pytest.raises(InvalidInput, match=message):
        cross_entropy_loss(logits, target)


def test_an_unknown_reduction_is_refused():
    with unchecked(), pytest.raises(InvalidInput, match=r"^reduction must be 'mean', 'sum' or 'none', got 'avg'$"):
        cross_entropy_loss(LOGITS, TARGET, reduction="avg")


def test_a_network_that_does_not_return_logits_is_refused():
    with unchecked(), pytest.raises(InvalidInput, match="tuple"):
        CrossEntropy()(torch.nn.LSTM(2, 2), Batch(LOGITS, TARGET), Context(random.stream(0), num_classes=2))
