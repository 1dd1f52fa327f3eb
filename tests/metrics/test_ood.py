import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmixup import functional as F
from rankmixup.errors import InvalidInput
from tests.oracles import metrics as oracle
from tests.oracles import unchecked

KINDS = ("entropy", "max-probability", "energy")
values = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=25)


def test_scores_by_hand():
    logits = torch.tensor([[0.0, 0.0, 0.0], [math.log(2), 0.0, 0.0]], dtype=torch.float64)
    assert F.ood_scores(logits).tolist() == pytest.approx([math.log(3), 1.5 * math.log(2)])
    assert F.ood_scores(logits, "max-probability").tolist() == pytest.approx([2 / 3, 1 / 2])
    assert F.ood_scores(logits, "energy").tolist() == pytest.approx([-math.log(3), -math.log(4)])


@pytest.mark.parametrize("kind", ["entropy", "max-probability"])
def test_probabilities_give_the_same_and_zeros_are_no_trouble(kind, rng):
    logits = torch.randn(20, 5, generator=rng, dtype=torch.float64)
    given_logits, given_probs = F.ood_scores(logits, kind), F.ood_scores(logits.softmax(1), kind, from_logits=False)
    torch.testing.assert_close(given_logits, given_probs)
    assert F.ood_scores(torch.tensor([[1.0, 0.0]]), kind, from_logits=False).item() == 0


def test_scores_agree_with_torch(rng):
    logits = torch.randn(40, 7, generator=rng, dtype=torch.float64)
    entropy = torch.special.entr(logits.softmax(1)).sum(1)
    torch.testing.assert_close(F.ood_scores(logits), entropy)
    torch.testing.assert_close(F.ood_scores(logits, "max-probability"), 1 - logits.softmax(1).amax(1))


def test_confident_predictions_keep_their_order():
    """1 - confidence is 0 for both in float32."""
    first, second = F.ood_scores(torch.tensor([[30.0, 0.0], [31.0, 0.0]]), "max-probability").tolist()
    assert first > second > 0


def test_detection_by_hand():
    # 19 of 20 ID samples lie at 0..18, so that 18 is the threshold; two of four OOD samples lie at or below it.
    id_scores = torch.cat([torch.arange(19.0), torch.tensor([100.0])])
    result = F.ood_detection(id_scores, torch.tensor([17.5, 18.0, 18.5, 200.0]))
    assert result["fpr95"] == 0.5
    assert result["auroc"] == pytest.approx((18 + 18.5 + 19 + 20) / 80)


def test_fpr95_is_about_accepted_ood_samples_and_at_least_95_percent():
    """With 21 ID samples 95 % is 19.95, so that 20 are accepted; the other convention (rejected ID samples) would give 1 / 21 or more."""
    assert F.ood_detection(torch.arange(21.0), torch.tensor([18.5, 19.0, 19.5, 20.5, 30.0]))["fpr95"] == 2 / 5


@settings(max_examples=60)
@given(values, values)
def test_agrees_with_loops_and_scikit_learn(inside, outside):
    from sklearn.metrics import average_precision_score, roc_auc_score

    result = F.ood_detection(torch.tensor(inside), torch.tensor(outside))
    labels, scores = [0] * len(inside) + [1] * len(outside), inside + outside
    assert result["auroc"] == pytest.approx(oracle.auroc(inside, outside), abs=1e-12)
    assert result["auroc"] == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
    assert result["aupr_out"] == pytest.approx(average_precision_score(labels, scores), abs=1e-12)
    assert result["aupr_in"] == pytest.approx(average_precision_score([1 - y for y in labels], [-s for s in scores]), abs=1e-12)
    accepting = [t for t in sorted(set(scores)) if 100 * sum(s <= t for s in inside) >= 95 * len(inside)]
    assert result["fpr95"] == pytest.approx(sum(s <= accepting[0] for s in outside) / len(outside))
    # Which samples come first does not matter, nor does any rising function of the scores.
    moved = F.ood_detection(torch.tensor(inside[::-1]).exp(), torch.tensor(outside[::-1]).exp())
    assert moved == pytest.approx(result, abs=1e-12)


def test_perfect_and_hopeless():
    low, high = torch.tensor([0.0, 1.0]), torch.tensor([2.0, 3.0])
    assert F.ood_detection(low, high) == {"auroc": 1, "aupr_in": 1, "aupr_out": 1, "fpr95": 0}
    worst = F.ood_detection(high, low)
    assert worst["auroc"] == 0
    assert worst["fpr95"] == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: F.ood_detection(torch.tensor([]), torch.tensor([1.0])), "id_scores must hold at least one sample, got none"),
        (lambda: F.ood_detection(torch.tensor([1.0]), torch.tensor([])), "ood_scores must hold at least one sample, got none"),
        (lambda: F.ood_detection(torch.tensor([1.0]), torch.tensor([0.0, math.nan])), "ood_scores must be finite, sample 1 is not"),
        (lambda: F.ood_detection(torch.ones(2, 2), torch.ones(2)), r"id_scores must have shape \[N\], got \[2, 2\]"),
        (lambda: F.ood_scores(torch.ones(2, 2), "odin"), "kind must be 'entropy', 'max-probability' or 'energy', got 'odin'"),
        (lambda: F.ood_scores(torch.ones(2, 1), "energy", from_logits=False), "energy must be computed from logits"),
        (lambda: F.ood_scores(torch.ones(3, 1, 1)), r"logits must have shape \[N, K\], .* got \[3, 1, 1\]"),
        (lambda: F.ood_scores(torch.tensor([[math.inf, 0.0]])), "logits must be finite, row 0 is not"),
    ],
)
def test_bad_input(call, message):
    with unchecked(), pytest.raises(InvalidInput, match=message):
        call()
