"""Mixup: the function, the mixer's forwards and draws, and what every mixer gives back in `Mixed`."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import nn
from torch.autograd import gradcheck
from torchvision.transforms import v2

from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.mixers import Mixed, Mixer, Mixup, mixup
from tests.oracles import ConvNet, Spy, images, unchecked
from tests.oracles import rankmixup as oracle

ROLLED = torch.tensor([[1, 2, 3, 0]])


def drawn(size=6, num_mixes=3, seed=0, **fields):
    """Mixed features themselves: the network is the identity."""
    x = torch.randn(size, 5, generator=random.stream(0, "x"))
    return x, Mixup(**fields)(nn.Identity(), x, random.stream(seed, "draws"), num_mixes=num_mixes)


# The function


def test_weighs_the_own_sample_with_lam_and_the_partner_with_the_rest():
    x = torch.tensor([[0.0, 8.0], [4.0, 0.0], [100.0, 40.0]])
    mixed = mixup(x, torch.tensor([0.75, 0.25, 0.5]), torch.tensor([1, 2, 2]))
    # 3/4 (0, 8) + 1/4 (4, 0);  1/4 (4, 0) + 3/4 (100, 40);  a sample mixed with itself
    assert mixed.tolist() == [[1.0, 6.0], [76.0, 30.0], [100.0, 40.0]]


def test_several_mixes_are_that_many_single_ones():
    x, lam = torch.randn(4, 2, 3), torch.rand(3, 4)
    partner = random.permutations(3, 4, random.stream(0))
    assert torch.equal(mixup(x, lam, partner), torch.stack([mixup(x, lam[m], partner[m]) for m in range(3)]))


@settings(max_examples=50)
@given(st.data())
def test_agrees_with_the_double_loop(data):
    size = data.draw(st.integers(1, 5))
    number = st.floats(-100, 100)
    x = data.draw(st.lists(st.lists(number, min_size=3, max_size=3), min_size=size, max_size=size))
    lam = data.draw(st.lists(st.floats(0, 1), min_size=size, max_size=size))
    partner = data.draw(st.permutations(range(size)))
    got = mixup(torch.tensor(x, dtype=torch.float64), torch.tensor(lam, dtype=torch.float64), torch.tensor(partner))
    torch.testing.assert_close(got, torch.tensor(oracle.mixup(x, lam, partner), dtype=torch.float64), rtol=1e-12, atol=1e-12)


def test_limits_are_exact():
    x, partner = torch.randn(4, 7) * 1e3, ROLLED[0]
    assert torch.equal(mixup(x, torch.ones(4), partner), x)
    assert torch.equal(mixup(x, torch.zeros(4), partner), x[partner])
    assert torch.equal(mixup(x, torch.rand(4), torch.arange(4)), x)


@pytest.mark.parametrize("lam", [0.2, 0.5, 0.9])
def test_agrees_with_torchvision_in_images_and_labels(lam):
    x, y = images(4), torch.tensor([2, 0, 0, 1])
    theirs = v2.MixUp(num_classes=3)
    theirs.make_params = lambda _: {"lam": lam}
    their_x, their_y = theirs(x, y)
    partner = torch.arange(4).roll(1)  # torchvision's fixed choice
    ours = Mixup()(Spy(), x, random.stream(0), lam=torch.full((1, 4), lam), partner=partner[None])
    torch.testing.assert_close(ours.logits[0], their_x.flatten(1))
    torch.testing.assert_close(ours.soft_labels(3, y)[0], their_y)


def test_gradient_reaches_both_samples():
    x, lam = torch.randn(3, 2, dtype=torch.float64, requires_grad=True), torch.tensor([[0.2] * 3, [0.9] * 3], dtype=torch.float64)
    assert gradcheck(lambda x: mixup(x, lam, torch.tensor([[1, 2, 0], [0, 2, 1]])), x)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_keeps_the_precision_of_its_input(dtype):
    assert mixup(torch.ones(2, 3, dtype=dtype), torch.tensor([0.3, 0.3]), torch.tensor([1, 0])).dtype == dtype


@pytest.mark.parametrize("shape", [(4, 1), (2,)])
def test_a_lambda_of_another_shape_is_refused(shape):
    # Above all lam [B, 1], which against x [B, D] would quietly broadcast to [B, B, D].
    with unchecked(), pytest.raises(InvalidInput, match="lam"):
        mixup(torch.randn(4, 3), torch.full(shape, 0.5), ROLLED[0])


# The draws


def test_one_lambda_for_the_batch_in_each_mix_or_one_for_each_sample():
    _, batch = drawn(lam_mode="batch")
    _, sample = drawn(lam_mode="sample")
    assert [len(set(row)) for row in batch.lam.tolist()] == [1, 1, 1]
    assert len(set(batch.lam[:, 0].tolist())) == 3
    assert len(set(sample.lam.flatten().tolist())) == 18


def test_partners_are_a_fresh_permutation_in_each_mix():
    _, mixed = drawn(size=20)
    assert torch.equal(mixed.partner.sort().values, torch.arange(20).expand(3, 20))
    assert len(set(map(tuple, mixed.partner.tolist()))) == 3


@pytest.mark.parametrize("lam_mode", ["batch", "sample"])
def test_gives_back_the_lambda_and_partner_that_made_the_mixes(lam_mode):
    x, mixed = drawn(lam_mode=lam_mode)
    expected = [oracle.mixup(x.tolist(), mixed.lam[m].tolist(), mixed.partner[m].tolist()) for m in range(3)]
    torch.testing.assert_close(mixed.logits, torch.tensor(expected))
    assert torch.equal(mixed.raw, x)


def test_lambda_is_not_folded_above_a_half():
    _, mixed = drawn(size=200, lam_mode="sample", alpha=2.0)
    below = (mixed.lam < 0.5).float().mean().item()
    assert abs(below - 0.5) < 5 * 0.5 / 600**0.5  # five standard deviations of 600 fair coins


@pytest.mark.parametrize("alpha", [0.2, 1.0, 10.0])
def test_lambda_has_the_distribution_of_its_alpha(alpha):
    _, mixed = drawn(size=1000, num_mixes=2, lam_mode="sample", alpha=alpha)
    assert stats.kstest(mixed.lam.flatten().double().numpy(), stats.beta(alpha, alpha).cdf).pvalue > 1e-5


def test_the_same_stream_draws_the_same_and_another_does_not():
    (_, first), (_, again), (_, other) = drawn(seed=1), drawn(seed=1), drawn(seed=2)
    assert torch.equal(first.logits, again.logits)
    assert not torch.equal(first.lam, other.lam)
    assert not torch.equal(first.partner, other.partner)


def test_lambda_and_partner_of_the_caller_are_used_and_nothing_is_drawn(rng):
    x, before = torch.randn(4, 3), rng.get_state()
    lam = torch.rand(2, 4)
    mixed = Mixup()(nn.Identity(), x, rng, num_mixes=2, lam=lam, partner=ROLLED.expand(2, 4))
    assert torch.equal(mixed.lam, lam)
    assert torch.equal(mixed.logits, mixup(x, lam, ROLLED.expand(2, 4)))
    assert torch.equal(rng.get_state(), before)


def test_the_input_is_not_written_to(rng):
    x = torch.randn(4, 3)
    before = x.clone()
    Mixup()(nn.Identity(), x, rng, num_mixes=3)
    assert torch.equal(x, before)


# The forwards


COLUMN = torch.tensor([[1.0], [3.0], [5.0], [11.0]], dtype=torch.float64)  # mean 5
LAST_REPLACED = torch.tensor([[1.0, 1.0, 1.0, 0.0]])  # with ROLLED, the mixes are 1 3 5 1: mean 2.5, of all eight 3.75


@pytest.mark.parametrize(
    ("forward", "raw", "batches"),
    [("separate", True, [4, 12]), ("joint", True, [16]), ("separate", False, [12]), ("joint", False, [12])],
)
def test_forwards_what_the_switch_says(forward, raw, batches, rng):
    spy, mixer = Spy(), Mixup(forward=forward)
    mixed = mixer(spy, torch.randn(4, 3), rng, num_mixes=3, raw=raw)
    assert [len(seen) for seen in spy.seen] == batches
    assert mixer.forwarded(3, raw) == sum(batches) / 4
    assert mixed.logits.shape == (3, 4, 3)
    assert (mixed.raw is not None) == raw


def test_separate_updates_batchnorm_twice_and_joint_once():
    """With momentum 0.1 from 0: two forwards leave 0.9 * 0.1 mean(raw) + 0.1 mean(mixed), one leaves 0.1 mean(both)."""
    means, counts = {}, {}
    for forward in ("separate", "joint"):
        norm = nn.BatchNorm1d(1)
        Mixup(forward=forward)(norm, COLUMN.float(), random.stream(0), lam=LAST_REPLACED, partner=ROLLED)
        means[forward], counts[forward] = norm.running_mean.item(), norm.num_batches_tracked.item()
    assert counts == {"separate": 2, "joint": 1}
    assert means == {"separate": pytest.approx(0.9 * 0.5 + 0.25), "joint": pytest.approx(0.375)}


def test_separate_gives_raw_and_mixed_samples_their_own_batch_statistics():
    norm = nn.BatchNorm1d(1, eps=1e-12, dtype=torch.float64)
    separate, joint = (Mixup(forward=f)(norm, COLUMN, random.stream(0), lam=LAST_REPLACED, partner=ROLLED) for f in ("separate", "joint"))
    # Raw 1 3 5 11: variance 39 - 25 = 14. Mixed 1 3 5 1: 9 - 6.25 = 2.75. Both: 24 - 3.75^2 = 9.9375.
    assert separate.raw[0, 0].item() == pytest.approx((1 - 5) / 14**0.5)
    assert separate.logits[0, 3, 0].item() == pytest.approx((1 - 2.5) / 2.75**0.5)
    assert joint.raw[0, 0].item() == joint.logits[0, 3, 0].item() == pytest.approx((1 - 3.75) / 9.9375**0.5)


def test_without_batchnorm_separate_and_joint_agree():
    net, x = ConvNet(norm=False), images(5)
    separate, joint = (Mixup(forward=f)(net, x, random.stream(3), num_mixes=2) for f in ("separate", "joint"))
    torch.testing.assert_close(separate.raw, joint.raw)
    torch.testing.assert_close(separate.logits, joint.logits)


# What a mixer refuses


@pytest.mark.parametrize("alpha", [0, -0.5])
def test_alpha_must_be_positive(alpha):
    with unchecked(), pytest.raises(InvalidInput, match=rf"^alpha must be positive, got {float(alpha)}$"):
        Mixup(alpha=alpha)


@pytest.mark.parametrize(("field", "value", "nearest"), [("lam_mode", "batches", "batch"), ("forward", "joined", "joint")])
def test_an_unknown_choice_is_refused_with_the_nearest_one(field, value, nearest):
    with unchecked(), pytest.raises(InvalidInput, match=rf"^unknown Mixup\.{field} '{value}'; did you mean '{nearest}'\?$"):
        Mixup(**{field: value})


@pytest.mark.parametrize("num_mixes", [0, -1])
def test_num_mixes_must_be_positive(num_mixes, rng):
    with pytest.raises(InvalidInput, match=rf"^num_mixes must be at least 1, got {num_mixes}$"):
        Mixup()(nn.Identity(), torch.randn(2, 2), rng, num_mixes=num_mixes)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.bool])
def test_integers_cannot_be_mixed(dtype, rng):
    with pytest.raises(InvalidInput, match=rf"floating point .*, got {dtype}$"):
        Mixup()(nn.Identity(), torch.ones(2, 2, dtype=dtype), rng)


@pytest.mark.parametrize("name", ["lam", "partner"])
def test_given_draws_must_fit_the_batch(name, rng):
    given = {"lam": torch.rand(2, 3), "partner": torch.zeros(2, 3, dtype=torch.long)}
    with pytest.raises(InvalidInput, match=rf"^{name} must have shape \[1, 3\], got \[2, 3\]$"):
        Mixup()(nn.Identity(), torch.randn(3, 2), rng, **{name: given[name]})


# What every mixer gives back


LABELS = torch.tensor([0, 0, 2])
MIXED = Mixed(None, torch.zeros(2, 3, 3), torch.tensor([[0.25, 0.25, 0.25], [0.75, 1.0, 0.5]]), torch.tensor([[1, 2, 0], [2, 0, 2]]))


def test_same_class_marks_partners_of_the_own_class_and_the_sample_itself():
    assert MIXED.same_class(LABELS).tolist() == [[True, False, False], [False, True, True]]


def test_relevance_is_the_largest_entry_of_the_mixed_label():
    # max(0.25, 0.75) = 0.75 but for two of one class, where the label stays one-hot.
    assert MIXED.relevance(LABELS).tolist() == [[1.0, 0.75, 0.75], [0.75, 1.0, 1.0]]


def test_soft_labels_are_mixtures_of_one_hot_labels():
    expected = [
        [[1.0, 0.0, 0.0], [0.25, 0.0, 0.75], [0.75, 0.0, 0.25]],
        [[0.75, 0.0, 0.25], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
    ]
    assert MIXED.soft_labels(3, LABELS).tolist() == expected


@settings(max_examples=30)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(0, 2**32))
def test_relevance_and_soft_labels_agree_with_the_definition(labels, seed):
    size = len(labels)
    rng = random.stream(seed)
    mixed = Mixup(lam_mode="sample")(nn.Identity(), torch.randn(size, 4), rng, num_mixes=2)
    rows = [[oracle.mixed_label(mixed.lam[m, i].item(), labels[i], labels[mixed.partner[m, i]], 4) for i in range(size)] for m in range(2)]
    soft = mixed.soft_labels(4, torch.tensor(labels))
    torch.testing.assert_close(soft, torch.tensor(rows))
    torch.testing.assert_close(soft.amax(dim=-1), mixed.relevance(torch.tensor(labels)))


@pytest.mark.parametrize(
    ("x", "lam", "partner", "message"),
    [
        (torch.zeros(2, 1), torch.tensor([1.5, 0.5]), torch.tensor([1, 0]), r"lam must lie in 0\.\.1, got 1\.5"),
        (torch.zeros(2, 1), torch.tensor([-0.5, 0.5]), torch.tensor([1, 0]), r"lam must lie in 0\.\.1, got -0\.5"),
        (torch.zeros(2, 1), torch.tensor([torch.nan, 0.5]), torch.tensor([1, 0]), r"lam must lie in 0\.\.1, got nan"),
        (torch.zeros(2, 1), torch.tensor([1, 0]), torch.tensor([1, 0]), "lam must be floating point, got torch.int64"),
        (torch.zeros(2, 1), ["a", "b"], torch.tensor([1, 0]), "lam must hold real numbers, got list of type <U1"),
        (torch.zeros(2, 1), torch.tensor([0.5, 0.5]), torch.tensor([2, 0]), r"partner must lie in 0\.\.1, got 2"),
        (torch.zeros(2, 1), torch.tensor([0.5, 0.5]), torch.tensor([-1, 0]), r"partner must lie in 0\.\.1, got -1"),
        (torch.zeros(2, 1), torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0]), "partner must hold whole numbers, got dtype torch.float32"),
        (torch.zeros(2, 1, dtype=torch.uint8), torch.tensor([0.5, 0.5]), torch.tensor([1, 0]), "x must be floating point, got torch.uint8"),
        (torch.tensor(1.0), torch.tensor([0.5]), torch.tensor([0]), "x must be a batch of samples"),
        (None, torch.tensor([0.5]), torch.tensor([0]), "x must hold real numbers, got NoneType"),
    ],
)
def test_what_cannot_be_mixed_is_refused_in_one_sentence(x, lam, partner, message):
    with unchecked(), pytest.raises(InvalidInput, match=rf"^{message}"):
        mixup(x, lam, partner)


@pytest.mark.parametrize("name", list(Mixer.registry))
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lam": torch.full((1, 6), 1.5)}, r"lam must lie in 0\.\.1, got 1\.5"),
        ({"lam": torch.full((1, 6), torch.nan)}, r"lam must lie in 0\.\.1, got nan"),
        ({"lam": 0.5}, r"lam must have shape \[1, 6\], got \[\]"),
        ({"partner": torch.full((1, 6), 6)}, r"partner must lie in 0\.\.5, got 6"),
        ({"partner": torch.zeros(1, 6)}, "partner must hold whole numbers, got dtype torch.float32"),
        ({"num_mixes": 1.0}, r"num_mixes must be a whole number, got 1\.0"),
        ({"num_mixes": None}, "num_mixes must be a whole number, got None"),
        ({"rng": 0}, r"rng must be a torch\.Generator, got 0"),
        ({"model": lambda x: x}, r"model must be a torch\.nn\.Module, got "),
    ],
)
def test_every_mixer_refuses_what_it_cannot_mix_with(name, given, message, rng):
    arguments = {"model": ConvNet(), "x": images(6), "rng": rng, **given}
    with unchecked(), pytest.raises(InvalidInput, match=rf"^{message}"):
        Mixer.registry[name]()(**arguments)
