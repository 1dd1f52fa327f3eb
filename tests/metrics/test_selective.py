import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmixup import functional as F
from rankmixup import random
from rankmixup.errors import InvalidInput
from tests.oracles import metrics as oracle


def two_class(confidences: list[float], correct: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    first = torch.tensor(confidences, dtype=torch.float64)
    return torch.stack([first, 1 - first], dim=1), 1 - torch.tensor(correct)


def test_values_by_hand():
    data = two_class([0.9, 0.8, 0.7], [1, 0, 1])
    assert F.aurc(*data, from_logits=False).item() == pytest.approx((0 + 1 / 2 + 1 / 3) / 3)
    # The best order has its wrong prediction last: (0 + 0 + 1/3) / 3.
    assert F.excess_aurc(*data, from_logits=False).item() == pytest.approx(1 / 6)
    assert F.correctness_auroc(*data, from_logits=False).item() == pytest.approx(1 / 2)


def test_ties_share():
    # Both at 0.8, one right: half an error after the first, one after the second.
    data = two_class([0.8, 0.8], [1, 0])
    assert F.aurc(*data, from_logits=False).item() == pytest.approx(1 / 2)
    assert F.correctness_auroc(*data, from_logits=False).item() == 1 / 2


@pytest.mark.parametrize("samples", [1, 2, 60])
@pytest.mark.parametrize("tied", [False, True])
def test_agree_with_loops(samples, tied, rng):
    probs, target = oracle.random_probs(samples, 3, rng)
    if tied:
        probs = torch.tensor([[0.75, 0.125, 0.125], [0.5, 0.25, 0.25]], dtype=torch.float64)[torch.randint(2, (samples,), generator=rng)]
    pairs = oracle.top(probs, target)
    wrong = sum(right == 0 for _, right in pairs)
    assert F.aurc(probs, target, from_logits=False).item() == pytest.approx(oracle.aurc(probs, target), abs=1e-12)
    excess = oracle.aurc(probs, target) - oracle.best_aurc(samples, wrong)
    assert F.excess_aurc(probs, target, from_logits=False).item() == pytest.approx(excess, abs=1e-12)
    if 0 < wrong < samples:
        expected = oracle.auroc([c for c, right in pairs if right == 0], [c for c, right in pairs if right == 1])
        assert F.correctness_auroc(probs, target, from_logits=False).item() == pytest.approx(expected, abs=1e-12)


def test_auroc_agrees_with_scikit_learn_and_torchmetrics(rng):
    from sklearn.metrics import roc_auc_score
    from torchmetrics.functional.classification import binary_auroc

    probs, target = oracle.random_probs(500, 4, rng)
    probs = (probs * 8).round() / 8  # ties
    probs[:, 0] += 1 - probs.sum(1)
    keep = (probs >= 0).all(1)
    probs, target = probs[keep], target[keep]
    right, confidence = probs.argmax(1) == target, probs.amax(1)
    ours = F.correctness_auroc(probs, target, from_logits=False).item()
    assert ours == pytest.approx(roc_auc_score(right, confidence), abs=1e-12)
    assert ours == pytest.approx(binary_auroc(confidence, right.long()).item(), abs=1e-6)


def test_all_right_and_all_wrong():
    right, wrong = two_class([0.9, 0.6], [1, 1]), two_class([0.9, 0.6], [0, 0])
    assert F.aurc(*right, from_logits=False).item() == F.excess_aurc(*right, from_logits=False).item() == 0
    assert F.excess_aurc(*wrong, from_logits=False).item() == 0
    assert F.aurc(*wrong, from_logits=False).item() == 1
    for data, count in ((right, 2), (wrong, 0)):
        with pytest.raises(InvalidInput, match=f"right and wrong at least once for an AUROC, got {count} right of 2"):
            F.correctness_auroc(*data, from_logits=False)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from([0.5, 0.6, 0.75, 1.0]), st.booleans()), min_size=1, max_size=30), st.integers(0, 10**6))
def test_properties(samples, seed):
    probs, target = two_class([each[0] for each in samples], [int(each[1]) for each in samples])
    order = torch.randperm(len(samples), generator=random.stream(seed, "properties"))
    for function in (F.aurc, F.excess_aurc):
        value = function(probs, target, from_logits=False).item()
        assert 0 <= value <= 1
        assert function(probs[order], target[order], from_logits=False).item() == pytest.approx(value, abs=1e-12)
    # Only ranks matter.
    squeezed = torch.stack([(1 + probs[:, 0]) / 2, probs[:, 1] / 2], dim=1)
    assert F.aurc(squeezed, target, from_logits=False).item() == pytest.approx(F.aurc(probs, target, from_logits=False).item(), abs=1e-12)
