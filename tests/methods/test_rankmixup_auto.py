import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rankmixup import random
from rankmixup.functional import mixup_ranking_loss
from rankmixup.methods import RankMixupAuto, RankMixupMRL, objective
from rankmixup.mixers import LogitMixup
from rankmixup.ops import log_odds
from tests.oracles import ConvNet, images
from tests.oracles.rankmixup import log_odds as naive_log_odds

SWITCHES = {"space": "log-odds", "gradient": "mixed"}


def test_by_hand():
    """Log-odds of raw samples 2 and 1, of mixes 3 and -1: with margin 0.5 the hinges are 1.5 and 0."""
    raw, mixed = torch.tensor([[2.0, 0.0], [1.0, 0.0]]), torch.tensor([[0.0, 3.0], [0.0, 0.0]])
    assert mixup_ranking_loss(raw, mixed, margin=0.5, **SWITCHES).tolist() == pytest.approx(0.75)


def test_log_odds_are_the_naive_ones(rng):
    logits = 5 * torch.randn(20, 7, generator=rng, dtype=torch.float64)
    logits[0] = 0.0  # all equal
    for row, found in zip(logits, log_odds(logits), strict=True):
        assert found.item() == pytest.approx(naive_log_odds(row.tolist()))


def test_it_is_the_naive_loop(rng):
    raw, mixed = 3 * torch.randn(6, 4, generator=rng), 3 * torch.randn(2, 6, 4, generator=rng)
    same = torch.rand(2, 6, generator=rng) < 0.3
    found = mixup_ranking_loss(raw, mixed, margin=-0.7, same_class=same, reduction="none", **SWITCHES)
    for row in range(6):
        hinges = [max(0.0, naive_log_odds(mix[row].tolist()) - naive_log_odds(raw[row].tolist()) - 0.7) for mix in mixed]
        expected = sum(hinge for hinge, skipped in zip(hinges, same[:, row], strict=True) if not skipped) / 2
        assert found[row].item() == pytest.approx(expected, abs=1e-5)


@given(st.floats(-50, 50), st.floats(-50, 50))
def test_constants_added_to_all_logits_change_neither_loss_nor_gradient(first, second):
    rng = random.stream(1)
    raw, mixed = (torch.randn(5, 3, generator=rng, dtype=torch.float64) for _ in range(2))
    found = []
    for by in ((0.0, 0.0), (first, second)):
        moved = (mixed + by[1]).requires_grad_()
        loss = mixup_ranking_loss(raw + by[0], moved, margin=1.0, **SWITCHES)
        found.append((loss.detach(), torch.autograd.grad(loss, moved)[0]))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


@given(st.floats(-10, 10), st.floats(0, 10))
def test_a_larger_margin_never_asks_for_more_confidence(margin, more):
    """Of no sample: the push on the log-odds of its mix is down, and no weaker with the larger margin."""
    rng = random.stream(2)
    raw, mixed = (3 * torch.randn(20, 4, generator=rng, dtype=torch.float64) for _ in range(2))
    pushes = []
    for each in (margin, margin + more):
        leaf = mixed.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(mixup_ranking_loss(raw, leaf, margin=each, **SWITCHES), leaf)
        odds = log_odds(leaf)
        (direction,) = torch.autograd.grad(odds.sum(), leaf)
        pushes.append(-(gradient * direction).sum(dim=1))
    assert (pushes[0] <= 0).all()
    assert (pushes[1] <= pushes[0] + 1e-15).all()


def test_gradients(rng):
    raw, mixed = (torch.randn(4, 3, generator=rng, dtype=torch.float64, requires_grad=True) for _ in range(2))
    for gradient in ("both", "mixed"):
        leaves = (raw, mixed) if gradient == "both" else (mixed,)
        assert torch.autograd.gradcheck(
            lambda *_, gradient=gradient: mixup_ranking_loss(raw, mixed, margin=2.0, space="log-odds", gradient=gradient), leaves
        )
    loss = mixup_ranking_loss(raw, mixed, margin=2.0, **SWITCHES)
    assert torch.autograd.grad(loss, raw, allow_unused=True)[0] is None


def test_the_defaults_are_the_switches():
    method = RankMixupAuto()
    assert (method.space, method.gradient, method.mixer, method.forwarded) == ("log-odds", "mixed", LogitMixup(alpha=2.0), 1)
    published = RankMixupMRL()
    assert (published.space, published.gradient, published.margin) == ("logit", "both", 2.0)


@pytest.mark.filterwarnings("ignore:.* was tuned on 3 samples:UserWarning")
def test_one_step_is_cross_entropy_plus_the_loss():
    step, model = objective("rankmixup-auto", num_classes=3, seed=0), ConvNet()
    x, y = images(6), torch.tensor([0, 1, 2, 0, 1, 1])
    step.tune(torch.eye(3) * 9, torch.tensor([1, 2, 0]))  # sure and wrong
    step.epoch = 1
    out = step(model, x, y)
    mixed = LogitMixup(alpha=2.0)(model, x, random.stream(0, "mixing", 0))
    ranking = mixup_ranking_loss(mixed.raw, mixed.logits, margin=step.active.margin, same_class=mixed.same_class(y), **SWITCHES)
    torch.testing.assert_close(out.loss, torch.nn.functional.cross_entropy(mixed.raw, y) + step.active.weight * ranking)
