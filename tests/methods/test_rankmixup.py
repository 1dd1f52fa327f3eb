"""Both ranking losses and both methods: values by hand, naive loops, gradients, and every switch from both sides."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.autograd import gradcheck
from torch.nn import functional as F

from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.methods import RankMixupMNDCG, RankMixupMRL, mixup_ranking_loss, mndcg_loss
from rankmixup.mixers import CutMix, ManifoldMixup, Mixup
from rankmixup.types import Batch, Context
from tests.oracles import ConvNet, Spy, images, unchecked
from tests.oracles import rankmixup as oracle

SPACES, MASKINGS, RATIOS = ("logit", "probability"), ("skip", "release", "keep"), ("symmetric", "paper")
DOUBLE = torch.float64
LN3 = math.log(3)  # logits (ln 3, 0) have probabilities 3/4 and 1/4


def logits_of(confidences):
    """Two-class logits [..., 2] whose softmax has these largest entries, each of 0.5..1."""
    confidences = torch.tensor(confidences, dtype=DOUBLE)
    return torch.stack([confidences.logit().clamp(max=1e3), torch.zeros_like(confidences)], dim=-1)


def random_case(num_mixes, size=5, classes=4, requires_grad=False):
    """Logits, mixed logits, same_class with both kinds in every mix, relevance in 0.5..1."""
    rng = random.stream(0, "case", num_mixes)
    raw = torch.randn(size, classes, dtype=DOUBLE, generator=rng, requires_grad=requires_grad)
    mixed = torch.randn(num_mixes, size, classes, dtype=DOUBLE, generator=rng, requires_grad=requires_grad)
    same = torch.stack([torch.arange(size) % (m + 2) == 0 for m in range(num_mixes)])
    return raw, mixed, same, 0.5 + torch.rand(num_mixes, size, dtype=DOUBLE, generator=rng) / 2


@st.composite
def cases(draw):
    """Logits of any shape, with the raw ones, the mixed ones, same_class and distinct relevances, as nested lists."""
    num_mixes, size, classes = draw(st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(2, 4)))
    row = st.lists(st.floats(-20, 20), min_size=classes, max_size=classes)
    raw = draw(st.lists(row, min_size=size, max_size=size))
    mixed = [draw(st.lists(row, min_size=size, max_size=size)) for _ in range(num_mixes)]
    same = [draw(st.lists(st.booleans(), min_size=size, max_size=size)) for _ in range(num_mixes)]
    columns = [draw(st.lists(st.floats(0.5, 1), min_size=num_mixes, max_size=num_mixes, unique=True)) for _ in range(size)]
    return raw, mixed, same, [list(row) for row in zip(*columns, strict=True)]


def tensors(raw, mixed, same, relevance):
    return torch.tensor(raw, dtype=DOUBLE), torch.tensor(mixed, dtype=DOUBLE), torch.tensor(same), torch.tensor(relevance, dtype=DOUBLE)


# MRL: values


RAW, MIX = torch.tensor([[3.0, 0.0], [0.0, 1.0], [9.0, 0.0]]), torch.tensor([[2.5, 1.0], [2.0, 0.0], [0.0, 6.0]])
SAME = torch.tensor([True, False, False])


def test_mrl_is_a_hinge_on_the_largest_logits_whatever_their_classes():
    # 2.5 - 3 + 2 = 1.5;  2 - 1 + 2 = 3, though the classes differ;  6 - 9 + 2 < 0
    assert mixup_ranking_loss(RAW, MIX, margin=2.0, reduction="none").tolist() == [1.5, 3.0, 0.0]
    assert mixup_ranking_loss(RAW, MIX, margin=2.0, reduction="sum").item() == 4.5
    assert mixup_ranking_loss(RAW, MIX, margin=2.0).item() == 1.5
    assert mixup_ranking_loss(RAW, MIX, margin=4.0, reduction="none").tolist() == [3.5, 5.0, 1.0]


def test_mrl_margin_is_two_unless_said_otherwise():
    assert mixup_ranking_loss(RAW, MIX).item() == 1.5


@pytest.mark.parametrize(
    ("masking", "loss"),
    [
        ("keep", (1.5 + 3.0) / 3),
        ("skip", 3.0 / 3),  # the first hinge is gone, the divisor stays 3
        ("release", 2 / 3 * (1.5 + 3.0) / 3),  # mean of the mask times mean of the hinge
    ],
)
def test_mrl_masking_of_partners_of_the_same_class(masking, loss):
    assert mixup_ranking_loss(RAW, MIX, same_class=SAME, masking=masking).item() == pytest.approx(loss)


def test_mrl_masking_of_single_samples():
    losses = {m: mixup_ranking_loss(RAW, MIX, same_class=SAME, masking=m, reduction="none").tolist() for m in MASKINGS}
    assert losses == {"keep": [1.5, 3.0, 0.0], "skip": [0.0, 3.0, 0.0], "release": [1.0, 2.0, 0.0]}


def test_mrl_space():
    """Largest probabilities: raw 3/4 and 1/2, mixed 1/2 and 3/4; largest logits: raw ln 3 and 0, mixed 0 and ln 3."""
    raw, mixed = torch.tensor([[LN3, 0.0], [0.0, 0.0]]), torch.tensor([[0.0, 0.0], [0.0, LN3]])
    probability = mixup_ranking_loss(raw, mixed, margin=0.5, space="probability", reduction="none")
    logit = mixup_ranking_loss(raw, mixed, margin=0.5, space="logit", reduction="none")
    torch.testing.assert_close(probability, torch.tensor([0.25, 0.75]))
    torch.testing.assert_close(logit, torch.tensor([0.0, LN3 + 0.5]))


def test_mrl_of_several_mixes_is_the_mean_over_them():
    mixes = torch.stack([MIX, torch.zeros(3, 2)])  # the second: 0 - 3 + 2 < 0, 0 - 1 + 2 = 1, 0 - 9 + 2 < 0
    same = torch.stack([SAME, torch.tensor([False, True, False])])
    assert mixup_ranking_loss(RAW, mixes, reduction="none").tolist() == [0.75, 2.0, 0.0]
    assert mixup_ranking_loss(RAW, mixes, same_class=same, reduction="none").tolist() == [0.0, 1.5, 0.0]


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("masking", MASKINGS)
@pytest.mark.parametrize("num_mixes", [1, 2, 3])
def test_mrl_agrees_with_the_double_loop(space, masking, num_mixes):
    raw, mixed, same, _ = random_case(num_mixes)
    got = mixup_ranking_loss(raw, mixed, margin=0.3, space=space, same_class=same, masking=masking)
    expected = oracle.mrl(raw.tolist(), mixed.tolist(), same.tolist(), margin=0.3, space=space, masking=masking)
    assert got.item() == pytest.approx(expected, rel=1e-12)


def test_mrl_readings_all_differ():
    raw, mixed, same, _ = random_case(2)
    losses = {mixup_ranking_loss(raw, mixed, same_class=same, space=s, masking=m).item() for s in SPACES for m in MASKINGS}
    assert len(losses) == 6


# MRL: gradients


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("masking", MASKINGS)
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_mrl_gradient(space, masking, reduction):
    """Checked for both arguments, so that a detached branch would show."""
    raw, mixed, same, _ = random_case(2, size=3, classes=3, requires_grad=True)

    def loss(raw, mixed):
        return mixup_ranking_loss(raw, mixed, margin=0.5, space=space, same_class=same, masking=masking, reduction=reduction)

    assert gradcheck(loss, (raw, mixed))


def test_mrl_pulls_the_raw_sample_up_and_the_mix_down_by_the_same_amount():
    raw, mixed = RAW.clone().requires_grad_(), MIX.clone().requires_grad_()
    mixup_ranking_loss(raw, mixed, reduction="sum").backward()
    assert raw.grad.tolist() == [[-1, 0], [0, -1], [0, 0]]  # at the largest logit; nothing where the margin is met
    assert mixed.grad.tolist() == [[1, 0], [1, 0], [0, 0]]


# MRL: properties


@settings(max_examples=60)
@given(cases(), st.sampled_from(SPACES), st.sampled_from(MASKINGS), st.floats(0, 5))
def test_mrl_agrees_with_the_double_loop_anywhere(case, space, masking, margin):
    raw, mixed, same, _ = tensors(*case)
    got = mixup_ranking_loss(raw, mixed, margin=margin, space=space, same_class=same, masking=masking).item()
    assert got == pytest.approx(oracle.mrl(*case[:3], margin=margin, space=space, masking=masking), rel=1e-9, abs=1e-12)
    assert got >= 0


@settings(max_examples=40)
@given(cases(), st.sampled_from(SPACES), st.sampled_from(MASKINGS), st.floats(0, 5), st.floats(0, 5))
def test_mrl_grows_with_the_margin_but_never_faster(case, space, masking, margin, more):
    raw, mixed, same, _ = tensors(*case)
    low, high = (mixup_ranking_loss(raw, mixed, margin=m, space=space, same_class=same, masking=masking) for m in (margin, margin + more))
    assert -1e-9 <= (high - low).item() <= more + 1e-9


@settings(max_examples=40)
@given(cases(), st.floats(1, 5), st.floats(0, 5))
def test_in_probability_space_a_margin_above_one_is_only_a_constant(case, margin, more):
    raw, mixed, _, _ = tensors(*case)
    low, high = (mixup_ranking_loss(raw, mixed, margin=m, space="probability") for m in (margin, margin + more))
    assert (high - low).item() == pytest.approx(more, abs=1e-9)


@settings(max_examples=40)
@given(cases(), st.sampled_from(SPACES), st.sampled_from(MASKINGS), st.randoms(use_true_random=False))
def test_mrl_does_not_depend_on_the_order_of_samples_or_mixes(case, space, masking, shuffler):
    raw, mixed, same, _ = tensors(*case)
    samples, mixes = list(range(len(raw))), list(range(len(mixed)))
    shuffler.shuffle(samples)
    shuffler.shuffle(mixes)
    options = {"space": space, "masking": masking, "reduction": "none"}
    straight = mixup_ranking_loss(raw, mixed, same_class=same, **options)
    shuffled = mixup_ranking_loss(raw[samples], mixed[mixes][:, samples], same_class=same[mixes][:, samples], **options)
    torch.testing.assert_close(shuffled, straight[samples])


@pytest.mark.parametrize("space", SPACES)
def test_mrl_of_a_mix_that_is_the_raw_sample_is_the_margin(space):
    raw, *_ = random_case(1)
    torch.testing.assert_close(mixup_ranking_loss(raw, raw, margin=0.7, space=space, reduction="none"), torch.full((5,), 0.7, dtype=DOUBLE))


@pytest.mark.parametrize("masking", ["skip", "release"])
def test_mrl_is_zero_if_every_partner_has_the_same_class(masking):
    assert mixup_ranking_loss(RAW, MIX, same_class=torch.ones(3, dtype=torch.bool), masking=masking).item() == 0
    assert mixup_ranking_loss(RAW, MIX, same_class=torch.zeros(3, dtype=torch.bool), masking=masking).item() == 1.5


# M-NDCG: values


D = [1 / math.log2(q + 1) for q in range(1, 5)]  # 1, 0.6309, 0.5, 0.4307


def test_mndcg_sorts_by_relevance_and_takes_the_confidences_along():
    """Confidences 1 | 0.7, 0.5 and relevances 0.6, 0.9.

    The second mix comes first: DCG = 1 + 0.5 / log2(3) + 0.7 / 2 = 1.66546, IDCG = 1 + 0.9 / log2(3) + 0.6 / 2 = 1.86784.
    Unsorted the loss would be 0.0749, with confidences sorted by themselves 0.0943.
    """
    loss = mndcg_loss(logits_of([1.0]), logits_of([[0.7], [0.5]]), torch.tensor([[0.6], [0.9]]))
    assert loss.item() == pytest.approx(1 - (1 + 0.5 * D[1] + 0.35) / (1 + 0.9 * D[1] + 0.3))
    assert loss.item() == pytest.approx(0.10835, abs=5e-6)


def test_mndcg_sorts_each_sample_by_itself():
    relevance = torch.tensor([[0.6, 0.9], [0.9, 0.6]])
    loss = mndcg_loss(logits_of([1.0, 1.0]), logits_of([[0.7, 0.5], [0.5, 0.7]]), relevance, reduction="none")
    assert loss.tolist() == [pytest.approx(0.10835, abs=5e-6)] * 2


RELEVANCE = torch.tensor([[0.9], [0.7], [0.55]])
IDEAL = 1 + 0.9 * D[1] + 0.7 * D[2] + 0.55 * D[3]  # 2.1547


def test_mndcg_of_an_overconfident_network_is_negative_in_the_paper_and_not_if_symmetric():
    """All confidences 1: DCG = 2.5616, IDCG = 2.1547, r = 1.1888; 1 - r = -0.1888 and 1 - 1/r = 0.1588."""
    certain = logits_of([1.0]), logits_of([[1.0], [1.0], [1.0]]), RELEVANCE
    assert mndcg_loss(*certain, ratio="paper").item() == pytest.approx(-0.1888, abs=5e-5)
    assert mndcg_loss(*certain, ratio="symmetric").item() == pytest.approx(0.1588, abs=5e-5)


@pytest.mark.parametrize("ratio", RATIOS)
def test_mndcg_of_an_underconfident_network_has_one_reading(ratio):
    unsure = logits_of([0.5]), logits_of([[0.5], [0.5], [0.5]]), RELEVANCE
    assert mndcg_loss(*unsure, ratio=ratio).item() == pytest.approx(1 - 0.5 * sum(D) / IDEAL)


@pytest.mark.parametrize("ratio", RATIOS)
def test_mndcg_costs_nothing_in_the_wrong_order_with_the_right_sum(ratio):
    last = (IDEAL - 1 - 0.6 * D[1] - 0.8 * D[2]) / D[3]
    assert last == pytest.approx(0.873, abs=1e-3)  # confidences 0.6, 0.8, 0.873 rise where relevances fall
    loss = mndcg_loss(logits_of([1.0]), logits_of([[0.6], [0.8], [last]]), RELEVANCE.double(), ratio=ratio)
    assert loss.item() == pytest.approx(0, abs=1e-7)


def test_mndcg_is_zero_if_confidences_are_the_relevances():
    loss = mndcg_loss(logits_of([1.0]), logits_of(RELEVANCE.tolist()), RELEVANCE)
    assert loss.item() == pytest.approx(0, abs=1e-7)


def test_mndcg_reductions():
    case = logits_of([0.6, 0.9]), logits_of([[0.6, 0.9]]), torch.ones(1, 2)  # 1 - c if every relevance is 1
    assert mndcg_loss(*case, reduction="none").tolist() == pytest.approx([0.4, 0.1])
    assert mndcg_loss(*case, reduction="sum").item() == pytest.approx(0.5)
    assert mndcg_loss(*case).item() == pytest.approx(0.25)


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("num_mixes", [1, 2, 3, 7])
def test_mndcg_agrees_with_the_double_loop(ratio, num_mixes):
    raw, mixed, _, relevance = random_case(num_mixes)
    got = mndcg_loss(raw, 3 * mixed, relevance, ratio=ratio, reduction="none")
    assert got.tolist() == pytest.approx(oracle.mndcg(raw.tolist(), (3 * mixed).tolist(), relevance.tolist(), ratio=ratio), rel=1e-12)


# M-NDCG: gradients


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("sharpness", [0.5, 10.0])  # DCG below IDCG, and above it
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_mndcg_gradient(ratio, sharpness, reduction):
    raw, mixed, _, relevance = random_case(3, size=3, classes=3, requires_grad=True)

    def loss(raw, mixed):
        return mndcg_loss(sharpness * raw, sharpness * mixed, relevance, ratio=ratio, reduction=reduction)

    assert gradcheck(loss, (raw, mixed))


@pytest.mark.parametrize(("ratio", "c", "sign"), [("symmetric", 0.6, -1), ("symmetric", 0.99, 1), ("paper", 0.6, -1), ("paper", 0.99, -1)])
def test_mndcg_pushes_all_confidences_up_below_the_ideal_and_down_above_it_if_symmetric(ratio, c, sign):
    """dL/dc_q = -D_q / IDCG below, +D_q IDCG / DCG^2 above; dc/dz = c (1 - c) for two classes."""
    raw, mixed = logits_of([c]).requires_grad_(), logits_of([[c], [c], [c]]).requires_grad_()
    mndcg_loss(raw, mixed, RELEVANCE.double(), ratio=ratio).backward()
    slope = -1 / IDEAL if sign < 0 else IDEAL / (c * sum(D)) ** 2
    expected = [slope * discount * c * (1 - c) for discount in D]
    assert [raw.grad[0, 0].item(), *mixed.grad[:, 0, 0].tolist()] == pytest.approx(expected, rel=1e-5)


# M-NDCG: properties


@settings(max_examples=60)
@given(cases(), st.sampled_from(RATIOS))
def test_mndcg_agrees_with_the_double_loop_anywhere(case, ratio):
    raw, mixed, _, relevance = tensors(*case)
    got = mndcg_loss(raw, mixed, relevance, ratio=ratio, reduction="none").tolist()
    assert got == pytest.approx(oracle.mndcg(case[0], case[1], case[3], ratio=ratio), rel=1e-9, abs=1e-12)
    if ratio == "symmetric":
        assert all(0 <= loss < 1 for loss in got)


@settings(max_examples=40)
@given(cases(), st.sampled_from(RATIOS), st.randoms(use_true_random=False))
def test_mndcg_does_not_depend_on_the_order_of_samples_or_mixes(case, ratio, shuffler):
    raw, mixed, _, relevance = tensors(*case)
    samples, mixes = list(range(len(raw))), list(range(len(mixed)))
    shuffler.shuffle(samples)
    shuffler.shuffle(mixes)
    straight = mndcg_loss(raw, mixed, relevance, ratio=ratio, reduction="none")
    shuffled = mndcg_loss(raw[samples], mixed[mixes][:, samples], relevance[mixes][:, samples], ratio=ratio, reduction="none")
    torch.testing.assert_close(shuffled, straight[samples])


@settings(max_examples=40)
@given(cases())
def test_mndcg_of_mixes_that_are_the_raw_sample_is_what_it_lacks_of_certainty(case):
    """lam to 1: every relevance is 1 and every confidence c, so r = c."""
    raw, mixed, _, _ = tensors(*case)
    copies = raw.expand_as(mixed)
    loss = mndcg_loss(raw, copies, torch.ones(mixed.shape[:2], dtype=DOUBLE), reduction="none")
    assert loss.tolist() == pytest.approx([1 - oracle.confidence(row) for row in case[0]], abs=1e-12)


def test_mndcg_is_finite_and_bounded_for_extreme_logits():
    raw, mixed = torch.tensor([[1e4, -1e4], [0.0, 0.0]]), torch.tensor([[[1e4, -1e4], [-1e4, 1e4]]])
    raw.requires_grad_()
    loss = mndcg_loss(raw, mixed, torch.tensor([[0.5, 1.0]]), reduction="none")
    loss.sum().backward()
    assert ((loss >= 0) & (loss < 1)).all()
    assert raw.grad.isfinite().all()


# Half precision


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits_give_a_loss_in_single_precision(dtype):
    raw, mixed, same, relevance = random_case(2)
    raw, mixed = raw.to(dtype), mixed.to(dtype)
    for space in SPACES:
        half = mixup_ranking_loss(raw, mixed, space=space, same_class=same)
        assert half.dtype == torch.float32
        torch.testing.assert_close(half, mixup_ranking_loss(raw.float(), mixed.float(), space=space, same_class=same))
    half = mndcg_loss(raw, mixed, relevance.to(dtype))
    assert half.dtype == torch.float32
    torch.testing.assert_close(half, mndcg_loss(raw.float(), mixed.float(), relevance.to(dtype).float()))


# The methods


def step(method, net=None, seed=0, size=6, labels=(0, 1, 2, 0, 1, 1)):
    """One step, and the mixes that it must have been made of, drawn again from the same stream."""
    net = net or ConvNet(norm=False).double()
    x, y = images(size, DOUBLE), torch.tensor(labels)
    out = method(net, Batch(x, y), Context(random.stream(seed), num_classes=3))
    return out, method.mixer(net, x, random.stream(seed), num_mixes=method.num_mixes), y


@pytest.mark.parametrize("mixer", [Mixup(), Mixup(lam_mode="sample"), Mixup(forward="joint"), CutMix(), ManifoldMixup(layer="layer1")])
@pytest.mark.parametrize("num_mixes", [1, 3])
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("masking", MASKINGS)
def test_mrl_method_is_cross_entropy_on_raw_samples_plus_the_weighted_hinge(mixer, num_mixes, space, masking):
    out, mixed, y = step(RankMixupMRL(mixer=mixer, num_mixes=num_mixes, space=space, masking=masking, margin=0.4, weight=0.7))
    same = [[bool(y[j] == y[i]) for i, j in enumerate(row)] for row in mixed.partner.tolist()]
    ranking = oracle.mrl(mixed.raw.tolist(), mixed.logits.tolist(), same, margin=0.4, space=space, masking=masking)
    ce = F.cross_entropy(mixed.raw, y).item()
    assert out.loss.item() == pytest.approx(ce + 0.7 * ranking, rel=1e-9)
    assert {name: term.item() for name, term in out.terms.items()} == pytest.approx({"ce": ce, "ranking": ranking}, rel=1e-9)
    torch.testing.assert_close(out.logits, mixed.raw)


@pytest.mark.parametrize("mixer", [Mixup(), CutMix(), ManifoldMixup()])
@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("relevance", ["label", "lambda"])
def test_mndcg_method_is_cross_entropy_on_raw_samples_plus_the_weighted_loss(mixer, ratio, relevance):
    out, mixed, y = step(RankMixupMNDCG(mixer=mixer, ratio=ratio, relevance=relevance, weight=0.7))
    lam, labels = mixed.lam.tolist(), y.tolist()
    if relevance == "label":
        truth = [
            [max(oracle.mixed_label(lam[m][i], labels[i], labels[j], 3)) for i, j in enumerate(row)] for m, row in enumerate(mixed.partner)
        ]
    else:
        truth = lam
    ranking = sum(oracle.mndcg(mixed.raw.tolist(), mixed.logits.tolist(), truth, ratio=ratio)) / 6
    ce = F.cross_entropy(mixed.raw, y).item()
    assert out.loss.item() == pytest.approx(ce + 0.7 * ranking, rel=1e-6)  # lambda is in single precision
    assert out.terms["ranking"].item() == pytest.approx(ranking, rel=1e-6)


def test_mndcg_relevance_of_the_label_folds_lambda_and_knows_the_class():
    """One mix at lambda 0.2 of two classes, and of one class: relevance 0.8 and 1 from the label, 0.2 from lambda.

    Every logit is 0, so that every confidence is 1/2, and DCG = (1 + 1 / log2(3)) / 2 = 0.81546 in all of them.
    """

    class Fixed(Mixup):
        def __call__(self, model, x, rng, *, num_mixes=1, raw=True, **_):
            lam, partner = torch.full((1, 2), 0.2), torch.tensor([[1, 0]])
            return super().__call__(model, x, rng, num_mixes=1, raw=raw, lam=lam, partner=partner)

    def loss(relevance, labels):
        method = RankMixupMNDCG(mixer=Fixed(), num_mixes=1, relevance=relevance)
        return method(Spy(), Batch(torch.zeros(2, 2), torch.tensor(labels)), Context(random.stream(0), 2)).terms["ranking"].item()

    dcg = 0.5 * (1 + D[1])
    assert loss("label", [0, 1]) == pytest.approx(1 - dcg / (1 + 0.8 * D[1]))
    assert loss("label", [1, 1]) == pytest.approx(0.5)
    assert loss("lambda", [0, 1]) == loss("lambda", [1, 1]) == pytest.approx(1 - dcg / (1 + 0.2 * D[1]))


def test_mndcg_method_of_an_overconfident_network_is_negative_in_the_paper_and_not_if_symmetric():
    net = ConvNet(norm=False).double()
    torch.nn.init.normal_(net.fc.weight, std=1e4, generator=random.stream(0))  # every confidence is all but 1
    symmetric, paper = (step(RankMixupMNDCG(ratio=ratio), net)[0].terms["ranking"].item() for ratio in RATIOS)
    assert paper < 0 < symmetric


METHODS = [RankMixupMRL(margin=0.5), RankMixupMRL(num_mixes=2, space="probability"), RankMixupMNDCG(), RankMixupMNDCG(relevance="lambda")]


@pytest.mark.parametrize("method", METHODS)
def test_mixed_samples_never_get_a_label(method):
    """Renaming the classes changes the cross-entropy but not the ranking term, which knows only who shares a class."""
    first, _, _ = step(method, labels=(0, 1, 2, 0, 1, 1))
    renamed, _, _ = step(method, labels=(2, 0, 1, 2, 0, 0))
    assert first.terms["ce"] != renamed.terms["ce"]
    assert first.terms["ranking"] == renamed.terms["ranking"]


@pytest.mark.parametrize("fields", [{"weight": 0.0}, {"weight": 0.3}, {"weight": 2.0}])
@pytest.mark.parametrize("cls", [RankMixupMRL, RankMixupMNDCG])
def test_loss_is_linear_in_the_weight(cls, fields):
    out, _, _ = step(cls(**fields))
    assert out.loss.item() == pytest.approx((out.terms["ce"] + fields["weight"] * out.terms["ranking"]).item())


@pytest.mark.parametrize("method", METHODS)
def test_gradients_flow_through_raw_and_mixed_samples(method):
    """Gradient of the ranking term alone, with respect to the input: a raw sample is reached as itself and as a mix."""
    x, y = images(6, DOUBLE), torch.tensor([0, 1, 2, 0, 1, 1])

    class TwoFaced(nn.Module):
        """Other parameters for the first batch (the raw one) than for the second."""

        def __init__(self):
            super().__init__()
            self.faces, self.calls = nn.ModuleList([ConvNet(norm=False).double(), ConvNet(norm=False).double()]), 0

        def forward(self, x):
            self.calls += 1
            return self.faces[self.calls - 1](x)

    net = TwoFaced()
    out = method(net, Batch(x, y), Context(random.stream(0), 3))
    ranking = (out.loss - F.cross_entropy(out.logits, y)) / method.weight
    raw, mixed = (torch.autograd.grad(ranking, face.fc.bias, retain_graph=True)[0] for face in net.faces)
    assert raw.abs().max() > 1e-4
    assert mixed.abs().max() > 1e-4


def test_defaults_are_the_papers():
    mrl, mndcg = RankMixupMRL(), RankMixupMNDCG()
    assert (mrl.weight, mrl.margin, mrl.num_mixes, mrl.mixer) == (0.1, 2.0, 1, Mixup(alpha=2.0))
    assert (mrl.space, mrl.masking, mrl.mixer.forward, mrl.mixer.lam_mode) == ("logit", "skip", "separate", "batch")
    assert (mndcg.weight, mndcg.num_mixes, mndcg.mixer) == (0.1, 3, Mixup(alpha=2.0))
    assert (mndcg.ratio, mndcg.relevance) == ("symmetric", "label")


@pytest.mark.parametrize(
    ("method", "forwarded"),
    [
        (RankMixupMRL(), 2),
        (RankMixupMNDCG(), 4),
        (RankMixupMNDCG(mixer=ManifoldMixup()), 1),
        (RankMixupMNDCG(num_mixes=1, mixer=CutMix()), 2),
    ],
)
def test_forwarded_counts_samples_that_enter_the_network(method, forwarded):
    assert method.forwarded == forwarded


# What they refuse


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RankMixupMRL(margin=-0.5), r"^margin must be at least 0, got -0\.5$"),
        (lambda: RankMixupMRL(weight=-1.0), r"^weight must be at least 0, got -1\.0$"),
        (lambda: RankMixupMNDCG(weight=-1.0), r"^weight must be at least 0, got -1\.0$"),
        (lambda: RankMixupMRL(num_mixes=0), r"^num_mixes must be at least 1, got 0$"),
        (lambda: RankMixupMNDCG(num_mixes=-2), r"^num_mixes must be at least 1, got -2$"),
        (lambda: RankMixupMRL(margin=math.nan), r"^RankMixupMRL\.margin must be finite, got nan$"),
        (lambda: RankMixupMRL(weight=math.inf), r"^RankMixupMRL\.weight must be finite, got inf$"),
        (lambda: RankMixupMRL(num_mixes=1.5), r"^RankMixupMRL\.num_mixes must be of type int, got 1\.5$"),
        (lambda: RankMixupMRL(space="logits"), r"^unknown RankMixupMRL\.space 'logits'; did you mean 'logit' or 'log-odds'"),
        (lambda: RankMixupMRL(masking="Skip"), r"^unknown RankMixupMRL\.masking 'Skip'; did you mean 'skip'"),
        (lambda: RankMixupMNDCG(ratio="release"), r"^unknown RankMixupMNDCG\.ratio 'release'; valid names: paper, symmetric$"),
        (lambda: RankMixupMNDCG(relevance="lam"), r"^unknown RankMixupMNDCG\.relevance 'lam'; did you mean 'lambda'"),
        (lambda: RankMixupMRL(mixer="mixup"), r"^RankMixupMRL\.mixer must be of type Mixer, got 'mixup'$"),
        (lambda: mixup_ranking_loss(RAW, MIX, margin=-1.0), r"^margin must be at least 0, got -1\.0$"),
        (lambda: mixup_ranking_loss(RAW, MIX, margin=math.nan), r"^margin must be at least 0, got nan$"),
        (lambda: mixup_ranking_loss(RAW, MIX, space="prob"), r"^space must be 'logit', 'probability' or 'log-odds', got 'prob'$"),
        (lambda: mixup_ranking_loss(RAW, MIX, masking="drop"), r"^masking must be 'skip', 'release' or 'keep', got 'drop'$"),
        (lambda: mixup_ranking_loss(RAW, MIX, reduction="avg"), r"^reduction must be 'mean', 'sum' or 'none', got 'avg'$"),
        (lambda: mixup_ranking_loss(RAW, MIX[:2]), r"^mixed_logits must hold .*, got \[1, 2, 2\] and \[3, 2\]$"),
        (lambda: mixup_ranking_loss(RAW, MIX.new_zeros(0, 3, 2)), r"^mixed_logits must hold M >= 1 mixes .*, got \[0, 3, 2\] and"),
        (lambda: mixup_ranking_loss(RAW, MIX, same_class=SAME[:, None]), r"^same_class must have shape \[1, 3\], got \[1, 3, 1\]$"),
        (lambda: mndcg_loss(RAW, MIX[None], torch.ones(1, 3), ratio="release"), r"^ratio must be 'symmetric' or 'paper', got 'release'$"),
        (lambda: mndcg_loss(RAW, MIX[None], torch.ones(3, 1)), r"^relevance must have shape \[1, 3\], got \[3, 1\]$"),
        (lambda: mndcg_loss(RAW, MIX, torch.ones(3)), r"^mixed_logits must hold .*, got \[3, 2\] and \[3, 2\]$"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(call, message):
    with unchecked(), pytest.raises(InvalidInput, match=message):
        call()


@pytest.mark.parametrize("space", ["logit", "probability"])
def test_mrl_tells_the_hinges_that_its_loss_is_the_mean_of(space, rng):
    raw, mixed = torch.randn(6, 4, generator=rng), torch.randn(3, 6, 4, generator=rng)
    method = RankMixupMRL(margin=0.1, space=space)
    hinges = method.hinges(raw, mixed)
    assert 0 < (hinges > 0).float().mean() < 1
    torch.testing.assert_close(hinges.mean(), mixup_ranking_loss(raw, mixed, margin=0.1, space=space))
    assert RankMixupMNDCG().hinges(raw, mixed) is None
