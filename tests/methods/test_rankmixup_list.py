import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.functional import mixup_list_loss, mndcg_loss
from rankmixup.methods import RankMixupList, objective
from tests.oracles import ConvNet, images, unchecked
from tests.oracles.rankmixup import log_odds, naive_list_loss


def two_class(odds):
    """Logits of two classes with these log-odds."""
    odds = torch.as_tensor(odds, dtype=torch.float64)
    return torch.stack([odds, torch.zeros_like(odds)], dim=-1)


def test_by_hand():
    """Log-odds 2, 3 and 1 for relevance 1, 0.8 and 0.6; margin 5 asks for gaps of 1, 2 and 1: short by 2, 1 and nothing."""
    loss = mixup_list_loss(two_class([2.0]), two_class([[3.0], [1.0]]), [[0.8], [0.6]], margin=5.0)
    assert loss.item() == pytest.approx((2 + 1 + 0) / 3)


@pytest.mark.parametrize("margin", [-3.0, 0.0, 4.0])
def test_it_is_the_naive_loop(margin, rng):
    raw, mixed = 3 * torch.randn(5, 4, generator=rng), 3 * torch.randn(3, 5, 4, generator=rng)
    relevance = torch.rand(3, 5, generator=rng)
    relevance[1, 0] = relevance[0, 0]  # a tie is not compared
    found = mixup_list_loss(raw, mixed, relevance, margin=margin, reduction="none")
    for row in range(5):
        expected = naive_list_loss(raw[row].tolist(), [mix[row].tolist() for mix in mixed], relevance[:, row].tolist(), margin)
        assert found[row].item() == pytest.approx(expected, abs=1e-5)


@given(st.lists(st.floats(0, 5), min_size=1, max_size=4), st.floats(0, 10))
def test_zero_exactly_where_the_order_and_the_gaps_are_right(extra, margin):
    """Build a list with the gaps that are asked for and something more, then take a little off one of them."""
    relevance = torch.linspace(0.95, 0.5, len(extra), dtype=torch.float64).unsqueeze(1)
    steps = margin * torch.cat([torch.ones(1, 1), relevance]).diff(dim=0).abs() + torch.tensor(extra).unsqueeze(1) + 1e-6
    raw, mixed = two_class([40.0]), two_class(40.0 - steps.cumsum(0))
    assert mixup_list_loss(raw, mixed, relevance, margin=margin).item() == 0
    closer = 40.0 - steps.cumsum(0)
    closer[-1] += steps[-1] - margin * (relevance[-2] - relevance[-1] if len(extra) > 1 else 1 - relevance[-1]) + 0.1
    assert mixup_list_loss(raw, two_class(closer), relevance, margin=margin).item() > 0


def test_mndcg_gives_nothing_to_a_list_in_the_wrong_order_and_this_does_not():
    """Confidences 0.6, 0.8 and 0.873 of mixes with relevance 0.9, 0.7 and 0.55: reversed, with the right discounted sum."""
    relevance = torch.tensor([[0.9], [0.7], [0.55]], dtype=torch.float64)
    discount = 1 / torch.log2(torch.arange(3, 6, dtype=torch.float64))
    last = ((relevance.squeeze(1) * discount).sum() - 0.6 * discount[0] - 0.8 * discount[1]) / discount[2]
    mixed = two_class(torch.stack([torch.tensor(0.6), torch.tensor(0.8), last]).logit().unsqueeze(1))
    raw = two_class([40.0])
    assert last.item() == pytest.approx(0.873, abs=1e-3)
    assert mndcg_loss(raw, mixed, relevance).item() == pytest.approx(0, abs=1e-6)
    assert mixup_list_loss(raw, mixed, relevance, margin=0.0).item() > 0.3


def test_a_constant_added_to_all_logits_changes_nothing(rng):
    raw, mixed = torch.randn(4, 3, generator=rng, dtype=torch.float64), torch.randn(2, 4, 3, generator=rng, dtype=torch.float64)
    relevance = torch.rand(2, 4, generator=rng)
    for gradient in ("both", "mixed"):
        plain, moved = (mixup_list_loss(raw + by, mixed - 2 * by, relevance, gradient=gradient) for by in (0.0, 7.0))
        torch.testing.assert_close(plain, moved)


def test_gradients(rng):
    raw, mixed = (torch.randn(*size, generator=rng, dtype=torch.float64, requires_grad=True) for size in ((3, 4), (2, 3, 4)))
    relevance = torch.rand(2, 3, generator=rng, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda a, b: mixup_list_loss(a, b, relevance, margin=3.0, gradient="both"), (raw, mixed))
    mixup_list_loss(raw, mixed, relevance, margin=3.0).backward()
    assert raw.grad is None or not raw.grad.any()
    # Only the least relevant of the list is pushed by all others, and only down.
    step = mixed.detach() - 0.01 * mixed.grad
    least = relevance.argmin(dim=0)
    for row, place in enumerate(least.tolist()):
        before, after = (log_odds(each[place, row].tolist()) for each in (mixed.detach(), step))
        assert after <= before + 1e-12


def test_the_method_trains_with_one_forward():
    method, model = RankMixupList(), ConvNet()
    step = objective(method, num_classes=3, seed=0)
    x, y = images(6), torch.tensor([0, 1, 2, 0, 1, 1])
    step.tune(torch.eye(3).repeat(100, 1) * 9, torch.tensor([1, 2, 0]).repeat(100))  # sure and wrong
    out = step(model, x, y)
    mixed = method.mixer(model, x, random.stream(0, "mixing", 0), num_mixes=3)
    torch.testing.assert_close(
        out.terms["ranking"], mixup_list_loss(mixed.raw, mixed.logits, mixed.relevance(y), margin=step.active.margin).detach()
    )
    assert method.forwarded == 1
    assert list(step.dials) == ["margin"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"margin": float("nan")}, "margin must be finite, got nan"),
        ({"gradient": "raw"}, "gradient must be 'both' or 'mixed', got 'raw'"),
        ({"relevance": [[1.5, 0.5]]}, "relevance must lie in 0..1, got 1.5"),
        ({"relevance": [[0.5]]}, r"relevance must have shape \[1, 2\], got \[1, 1\]"),
        ({"mixed_logits": torch.zeros(2, 2)}, "mixed_logits must hold M >= 1 mixes"),
        ({"logits": torch.zeros(2, 1), "mixed_logits": torch.zeros(1, 2, 1)}, "log-odds need at least 2 classes, got 1"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(arguments, message):
    good = {"logits": torch.zeros(2, 2), "mixed_logits": torch.zeros(1, 2, 2), "relevance": torch.ones(1, 2)}
    with unchecked(), pytest.raises(InvalidInput, match=f"^{message}"):
        mixup_list_loss(**good | arguments)
