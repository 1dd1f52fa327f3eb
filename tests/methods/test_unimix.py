"""UniMix: partners and lambdas that lean to the rarer class, with and without the prior correction."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rankmixup import objective, random
from rankmixup.errors import InvalidInput
from rankmixup.methods import UniMix, cross_entropy_loss, prior_corrected_logits, unimix_lambda, unimix_partner
from rankmixup.mixers import CutMix, ManifoldMixup, Mixer, Mixup
from rankmixup.random import stream
from rankmixup.testing import TinyNet, toy_batch
from tests.oracles import mixing as oracle
from tests.oracles import unchecked

COUNTS = [500, 200, 60, 5]


def test_partners_by_hand() -> None:
    # n = 4, 1, 1 and tau = -1/2: weights 1/2, 1, 1, so probabilities 0.2, 0.4, 0.4 and steps at 0.2, 0.6, 1.
    uniform = torch.tensor([0.0, 0.19, 0.21, 0.59, 0.61, 0.999])
    counts = torch.tensor([4, 1, 1, 4, 1, 1])  # twice over: steps 0.1, 0.3, 0.5, 0.6, 0.8, 1
    assert unimix_partner(uniform, counts).tolist() == [0, 1, 1, 3, 4, 5]


@pytest.mark.parametrize("tau", [-1.0, -0.5, -0.1, 0.0, 1.0])
def test_partner_frequencies_are_those_of_theory(tau: float) -> None:
    # One batch of eight, drawn from many times; the seed is fixed, so this either always passes or never does.
    counts = torch.tensor([500, 500, 500, 200, 200, 60, 60, 5])
    rng, draws = stream(0, "chi-square"), 5000
    with unchecked():
        drawn = torch.cat([unimix_partner(torch.rand(8, generator=rng), counts, tau=tau) for _ in range(draws)])
    observed = torch.bincount(drawn, minlength=8).tolist()
    expected = [8 * draws * share for share in oracle.unimix_probabilities(counts.tolist(), tau)]
    assert stats.chisquare(observed, expected).pvalue > 0.01
    # And the test can tell: evenly drawn partners would not pass for these.
    if tau != 0:
        assert stats.chisquare(observed, [draws] * 8).pvalue < 1e-6


@settings(max_examples=100)
@given(counts=st.lists(st.integers(1, 10**6), min_size=1, max_size=8), tau=st.floats(-100, 100), seed=st.integers(0, 10**6))
def test_partners_are_in_the_batch_however_extreme_tau(counts: list[int], tau: float, seed: int) -> None:
    uniform = torch.rand(len(counts), generator=stream(seed, "uniform"))
    partner = unimix_partner(uniform, torch.tensor(counts), tau=tau)
    assert ((partner >= 0) & (partner < len(counts))).all()
    edge = torch.full((len(counts),), 1 - 2**-24)  # the largest float32 below 1
    assert (unimix_partner(edge, torch.tensor(counts), tau=tau) < len(counts)).all()


def test_lambda_by_hand() -> None:
    # 0.25 + 30 / 40 = 1, which is not above 1; 0.5 + 0.75 - 1 = 0.25; 0.5 + 10 / 40 = 0.75; equal classes: 0.75 + 0.5 - 1
    lam = torch.tensor([0.25, 0.5, 0.5, 0.75])
    moved = unimix_lambda(lam, torch.tensor([10, 10, 30, 7]), torch.tensor([30, 30, 10, 7]))
    assert moved.tolist() == [1.0, 0.25, 0.75, 0.25]


@settings(max_examples=200)
@given(lam=st.floats(0, 1), own=st.integers(1, 5000), other=st.integers(1, 5000))
def test_lambda_agrees_with_the_naive_rule_and_stays_a_weight(lam: float, own: int, other: int) -> None:
    moved = unimix_lambda(torch.tensor([lam], dtype=torch.float64), torch.tensor([own]), torch.tensor([other])).item()
    assert moved == pytest.approx(oracle.unimix_lambda(lam, own, other), abs=1e-12)
    assert 0 <= moved <= 1


def test_lambda_favours_the_rarer_class() -> None:
    # Beta(0.8, 0.8) has most of its mass at the ends, that is, around 0 = 1 on the circle; moved, it lies around n_j / (n_i + n_j).
    drawn = random.beta(0.8, (20000,), stream(0, "lam"))
    head, tail = torch.full((20000,), 500), torch.full((20000,), 5)
    assert unimix_lambda(drawn, tail, head).mean() > 0.5 > unimix_lambda(drawn, head, tail).mean()


def test_prior_by_hand() -> None:
    # n = 3, 1 and equal logits: probabilities 3/4 and 1/4.
    assert cross_entropy_loss(prior_corrected_logits(torch.zeros(1, 2), torch.tensor([3, 1])), torch.tensor([1])).item() == pytest.approx(
        math.log(4)
    )


@settings(max_examples=50)
@given(seed=st.integers(0, 10**6), counts=st.lists(st.integers(1, 5000), min_size=2, max_size=6))
def test_prior_correction_is_the_bayias_loss(seed: int, counts: list[int]) -> None:
    logits = torch.randn(3, len(counts), generator=stream(seed, "logits"), dtype=torch.float64)
    target = torch.randint(len(counts), (3,), generator=stream(seed, "target"))
    losses = cross_entropy_loss(prior_corrected_logits(logits, torch.tensor(counts)), target, reduction="none")
    expected = [oracle.bayias(row, label, counts) for row, label in zip(logits.tolist(), target.tolist(), strict=True)]
    assert losses.tolist() == pytest.approx(expected, abs=1e-10)


def test_gradcheck() -> None:
    logits = torch.randn(4, 3, generator=stream(0, "logits"), dtype=torch.float64, requires_grad=True)
    counts, target = torch.tensor([50, 10, 1]), torch.tensor([0, 1, 2, 0])
    assert torch.autograd.gradcheck(lambda z: cross_entropy_loss(prior_corrected_logits(z, counts), target), logits)


def test_a_class_without_images_has_no_gradient_and_does_no_harm() -> None:
    logits = torch.zeros(2, 3, requires_grad=True)
    loss = cross_entropy_loss(prior_corrected_logits(logits, torch.tensor([3, 1, 0])), torch.tensor([0, 1]))
    loss.backward()
    assert loss.isfinite()
    assert logits.grad is not None
    assert logits.grad[:, 2].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "mixer", [UniMix().mixer, Mixup(alpha=0.8), CutMix(), ManifoldMixup()], ids=lambda mixer: f"{mixer.name}-{mixer.lam_mode}"
)
@pytest.mark.parametrize("correct", [True, False])
def test_a_step_agrees_with_naive_loops(mixer: Mixer, correct: bool) -> None:
    model, batch = TinyNet(), toy_batch()
    out = objective(UniMix(mixer=mixer, prior_correction=correct), 4, seed=5, class_counts=COUNTS)(model, batch.x, batch.y)
    # The same draws in the same order: partners, then lambdas, then whatever the mixer itself draws.
    rng, labels = stream(5, "mixing", 0), batch.y.tolist()
    sizes = [COUNTS[label] for label in labels]
    partner = unimix_partner(torch.rand(8, generator=rng), torch.tensor(sizes))
    drawn = random.beta(mixer.alpha, (8 if mixer.lam_mode == "sample" else 1,), rng).expand(8).tolist()
    moved = [oracle.unimix_lambda(lam, sizes[i], sizes[j]) for i, (lam, j) in enumerate(zip(drawn, partner.tolist(), strict=True))]
    mixed = mixer(model, batch.x, rng, raw=False, lam=torch.tensor([moved]), partner=partner.unsqueeze(0))
    loss = 0.0
    for i, j in enumerate(partner.tolist()):
        row, lam = mixed.logits[0, i].tolist(), float(mixed.lam[0, i])
        one = oracle.bayias if correct else lambda z, label, _: oracle.cross_entropy(z, label)
        loss += (lam * one(row, labels[i], COUNTS) + (1 - lam) * one(row, labels[j], COUNTS)) / 8
    assert out.loss.item() == pytest.approx(loss, abs=1e-5)
    assert out.logits is None


def test_defaults() -> None:
    method = UniMix()
    assert method.mixer == Mixup(alpha=0.8, lam_mode="sample")
    assert (method.tau, method.prior_correction, method.forwarded) == (-0.5, True, 1)


def test_bad_input() -> None:
    model, batch = TinyNet(), toy_batch()
    with pytest.raises(InvalidInput, match=r"^unimix needs the training images of each class: class_counts must be given, got None$"):
        objective(UniMix(), 4)(model, batch.x, batch.y)
    with pytest.raises(InvalidInput, match=r"^class_counts must be positive for every class of the batch, got 0 for class 1$"):
        objective(UniMix(), 4, class_counts=[1, 0, 1, 1])(model, batch.x, torch.ones_like(batch.y))
    with pytest.raises(InvalidInput, match=r"^UniMix.tau must be finite, got -inf$"):
        UniMix(tau=-math.inf)
