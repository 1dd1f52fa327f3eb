"""CutMix: the paste, the box, and lambda as the area that stays."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torchvision.transforms import v2

from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.mixers import CutMix, cutmix, cutmix_boxes
from tests.oracles import Spy, images, unchecked
from tests.oracles import rankmixup as oracle


def constant_images(size, height=16, width=12):
    """Image i is i everywhere, so that a pixel says where it is from."""
    return torch.arange(float(size)).reshape(size, 1, 1, 1).expand(size, 1, height, width).contiguous()


def pasted(mixer, rng, num_mixes=2, size=8, lam=None):
    """Which pixels came from the partner (never the sample itself), [M, B, H * W], and the lambda that was reported."""
    partner = torch.arange(size).roll(1).expand(num_mixes, size)
    lam = None if lam is None else torch.full((num_mixes, size), lam)
    mixed = mixer(Spy(), constant_images(size), rng, num_mixes=num_mixes, lam=lam, partner=partner)
    from_partner = mixed.logits == partner[..., None]
    assert torch.equal(~from_partner, mixed.logits == torch.arange(size)[:, None])  # every pixel is from one of the two
    return from_partner, mixed.lam


# The functions


def test_pastes_the_partners_box_and_counts_the_area_that_stays():
    x = torch.stack([torch.zeros(1, 2, 4), torch.arange(1.0, 9.0).reshape(1, 2, 4)])
    mixed, lam = cutmix(x, torch.tensor([[0, 2, 1, 3], [1, 2, 0, 1]]), torch.tensor([1, 0]))
    assert mixed[0, 0].tolist() == [[0, 2, 3, 0], [0, 6, 7, 0]]  # 4 of 8 pixels pasted
    assert mixed[1, 0].tolist() == [[1, 2, 3, 4], [0, 6, 7, 8]]  # 1 of 8
    assert lam.tolist() == [0.5, 0.875]


@settings(max_examples=40)
@given(st.data())
def test_paste_agrees_with_the_loop_over_pixels(data):
    size, height, width = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 5)))
    x = torch.randn(size, 2, height, width)
    ends = [sorted(data.draw(st.tuples(*[st.integers(0, extent)] * 2))) for _ in range(size) for extent in (height, width)]
    box = [[*ends[2 * i], *ends[2 * i + 1]] for i in range(size)]
    partner = data.draw(st.permutations(range(size)))
    mixed, lam = cutmix(x, torch.tensor(box), torch.tensor(partner))
    expected, expected_lam = oracle.cutmix(x.tolist(), box, partner)
    assert torch.equal(mixed, torch.tensor(expected))
    torch.testing.assert_close(lam, torch.tensor(expected_lam))


@pytest.mark.parametrize(
    ("lam", "centre", "size", "box"),
    [
        (0.75, (0.5, 0.5), (32, 32), (8, 24, 8, 24)),  # side 32 sqrt(1/4) = 16 about 16
        (0.75, (0.0, 0.5), (32, 32), (0, 8, 8, 24)),  # cut off above: half of it is left
        (0.75, (0.96875, 0.96875), (32, 32), (23, 32, 23, 32)),  # about 31, cut off below and to the right
        (0.75, (0.5, 0.5), (8, 4), (2, 6, 1, 3)),  # height first: sides 4 and 2 about 4 and 2
        (0.0, (0.5, 0.5), (10, 10), (0, 10, 0, 10)),  # everything
        (0.0, (0.5, 0.5), (5, 5), (0, 4, 0, 4)),  # side 5, half 2 by integer division, about int(2.5) = 2
        (1.0, (0.5, 0.5), (8, 8), (4, 4, 4, 4)),  # nothing
    ],
)
def test_box_has_sides_of_root_one_minus_lam_about_the_centre(lam, centre, size, box):
    got = cutmix_boxes(torch.tensor(lam, dtype=torch.float64), torch.tensor(centre, dtype=torch.float64), size)
    assert tuple(got.tolist()) == box


@settings(max_examples=100)
@given(
    st.floats(0, 1),
    st.tuples(*[st.floats(0, 1, exclude_max=True)] * 2),
    st.tuples(*[st.integers(1, 64)] * 2),
)
def test_box_agrees_with_cutmix_and_lies_inside_the_image(lam, centre, size):
    # Square roots may differ in their last bit, which decides where a side is a whole number but for rounding.
    sides = [extent * math.sqrt(1 - lam) for extent in size]
    assume(lam in (0, 1) or all(abs(side - round(side)) > 1e-9 * side for side in sides))
    double = torch.float64
    top, bottom, left, right = cutmix_boxes(torch.tensor(lam, dtype=double), torch.tensor(centre, dtype=double), size).tolist()
    assert (top, bottom, left, right) == oracle.cutmix_box(lam, centre, size)
    assert 0 <= top <= bottom <= size[0]
    assert 0 <= left <= right <= size[1]


def test_agrees_with_torchvision_for_the_same_box():
    x, y = images(4), torch.tensor([2, 0, 0, 1])
    top, bottom, left, right = 1, 4, 2, 6  # 12 of 36 pixels
    theirs = v2.CutMix(num_classes=3)
    theirs.make_params = lambda _: {"box": (left, top, right, bottom), "lam_adjusted": 1 - 12 / 36}
    their_x, their_y = theirs(x, y)
    partner = torch.arange(4).roll(1)
    mixed, lam = cutmix(x, torch.tensor([[top, bottom, left, right]] * 4), partner)
    assert torch.equal(mixed, their_x)
    one_hot = torch.eye(3)[y]
    torch.testing.assert_close(lam[:, None] * one_hot + (1 - lam[:, None]) * one_hot[partner], their_y)


def test_the_input_is_not_written_to(rng):
    x = torch.randn(4, 1, 8, 8)
    before = x.clone()
    cutmix(x, torch.tensor([[0, 4, 0, 4]] * 4), torch.arange(4).roll(1))
    mixed = CutMix()(Spy(), x, rng, num_mixes=3)
    assert torch.equal(x, before)
    assert torch.equal(mixed.raw, before.flatten(1))


@pytest.mark.parametrize("box", [(-2, 2, 0, 4), (0, 2, 0, 9)])
def test_lambda_counts_only_the_part_of_a_box_inside_the_image(box):
    x = torch.stack([torch.zeros(1, 4, 4), torch.ones(1, 4, 4)])
    mixed, lam = cutmix(x, torch.tensor([box] * 2), torch.tensor([1, 0]))
    assert mixed[0].mean() == 0.5
    assert lam.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("box", [(3, 1, 0, 2), (0, 2, 3, 1)])
def test_a_box_turned_inside_out_is_refused(box):
    with pytest.raises(InvalidInput, match=r"box must be .* with top <= bottom and left <= right"):
        cutmix(torch.zeros(2, 1, 4, 4), torch.tensor([(0, 1, 0, 1), box]), torch.tensor([1, 0]))


def test_function_refuses_what_is_not_an_image():
    with unchecked(), pytest.raises(InvalidInput, match=r"\[2, 4, 4\]"):  # without channels it would broadcast to [B, B, H, W]
        cutmix(torch.randn(2, 4, 4), torch.tensor([[0, 1, 0, 1]] * 2), torch.tensor([1, 0]))


# The mixer


@pytest.mark.parametrize("lam_mode", ["batch", "sample"])
def test_reported_lambda_is_the_area_that_stays(lam_mode, rng):
    changed, lam = pasted(CutMix(lam_mode=lam_mode), rng)
    torch.testing.assert_close(lam, 1 - changed.float().mean(dim=-1))


def test_lambda_is_recomputed_from_the_box_that_was_cut_off(rng):
    # Half of the area was asked for; a box that touches the border, as nearly all do, is smaller.
    _, lam = pasted(CutMix(lam_mode="sample"), rng, num_mixes=20, lam=0.5)
    assert (lam >= 0.5).all()
    assert (lam > 0.6).any()


def test_one_box_for_the_batch_in_each_mix_or_one_for_each_sample():
    batch, _ = pasted(CutMix(lam_mode="batch"), random.stream(0), lam=0.5)
    sample, _ = pasted(CutMix(lam_mode="sample"), random.stream(0), lam=0.5)
    boxes = {name: [len(set(map(tuple, mix.tolist()))) for mix in masks] for name, masks in (("batch", batch), ("sample", sample))}
    assert boxes["batch"] == [1, 1]
    assert min(boxes["sample"]) > 1
    assert not torch.equal(batch[0, 0], batch[1, 0])


def test_boxes_reach_every_pixel(rng):
    changed, _ = pasted(CutMix(lam_mode="sample"), rng, num_mixes=400, lam=0.9)
    assert changed.any(dim=0).any(dim=0).all()


@pytest.mark.parametrize("shape", [(4, 8), (4, 8, 8)])
def test_mixer_refuses_what_is_not_an_image(shape, rng):
    with pytest.raises(InvalidInput, match=r"^x must hold images \[B, C, H, W\] for CutMix, got shape \[4, 8"):
        CutMix()(Spy(), torch.randn(shape), rng)


@pytest.mark.parametrize(
    ("box", "partner", "message"),
    [
        (torch.zeros(2, 4), torch.tensor([1, 0]), "box must hold whole numbers, got dtype torch.float32"),
        (torch.zeros(2, 3, dtype=torch.long), torch.tensor([1, 0]), r"box must have shape \[2, 4\], got \[2, 3\]"),
        (torch.zeros(4, dtype=torch.long), torch.tensor([1, 0]), r"box must have shape \[2, 4\], got \[4\]"),
        (None, torch.tensor([1, 0]), "box must hold real numbers, got NoneType"),
        (torch.zeros(2, 4, dtype=torch.long), torch.tensor([1, 2]), r"partner must lie in 0\.\.1, got 2"),
        (torch.zeros(2, 4, dtype=torch.long), torch.tensor([0.0, 1.0]), "partner must hold whole numbers, got dtype torch.float32"),
        (torch.zeros(1, 4, dtype=torch.long), torch.tensor([1]), r"partner must have a shape that ends in B = 2, got \[1\]"),
    ],
)
def test_bad_boxes_and_partners_are_refused(box, partner, message):
    with unchecked(), pytest.raises(InvalidInput, match=rf"^{message}"):
        cutmix(torch.zeros(2, 1, 4, 4), box, partner)


@pytest.mark.parametrize(
    ("lam", "centre", "size", "message"),
    [
        (torch.tensor([1.5]), torch.zeros(1, 2), (4, 4), r"lam must lie in 0\.\.1, got 1\.5"),
        (torch.tensor([torch.nan]), torch.zeros(1, 2), (4, 4), r"lam must lie in 0\.\.1, got nan"),
        (torch.tensor([0.5]), torch.full((1, 2), 2.0), (4, 4), r"centre must lie in 0\.\.1, got 2"),
        (torch.tensor([0.5]), torch.zeros(2), (4, 4), r"centre must have shape \[1, 2\], got \[2\]"),
        (torch.tensor([0.5]), torch.zeros(1, 2), (4,), "size must be a height and a width"),
        (torch.tensor([0.5]), torch.zeros(1, 2), (4.0, 4), "size must be a whole number"),
    ],
)
def test_boxes_of_no_area_are_refused(lam, centre, size, message):
    with unchecked(), pytest.raises(InvalidInput, match=rf"^{message}"):
        cutmix_boxes(lam, centre, size)
