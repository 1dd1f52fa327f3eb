import pytest
import torch

from rankmixup import functional as F
from rankmixup.errors import InvalidInput
from rankmixup.metrics.inputs import check_scores

GOOD = torch.tensor([[0.5, 0.5], [0.25, 0.75]])
LABELS = torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("scores", "labels", "from_logits", "message"),
    [
        (torch.tensor([[float("nan"), 1.0], [0.0, 1.0]]), LABELS, True, "logits must be finite, row 0 is not"),
        (torch.tensor([[1.0, 2.0], [0.0, float("inf")]]), LABELS, True, "logits must be finite, row 1 is not"),
        (torch.tensor([[1.0, 2.0], [float("-inf"), float("inf")]]), LABELS, True, "logits must be finite, row 1 is not"),
        (GOOD, torch.tensor([0, 2]), False, "labels must lie in 0..1, got 2"),
        (GOOD, torch.tensor([-1, 1]), False, "labels must lie in 0..1, got -1"),
        (GOOD, torch.tensor([0, 1, 0]), False, "probs and labels must have the same length, got 2 and 3"),
        (GOOD[:0], LABELS[:0], False, r"probs must hold at least one sample and one class, got shape \[0, 2\]"),
        (GOOD, LABELS.float(), False, "labels must be class indices, got torch.float32"),
        (GOOD, LABELS.bool(), False, "labels must be class indices, got torch.bool"),
        (GOOD, LABELS.unsqueeze(1), False, r"labels must have shape \[N\], got \[2, 1\]"),
        (GOOD[0], LABELS, False, r"probs must have shape \[N, K\], got \[2\]"),
        (torch.tensor([[2, 1]]), torch.tensor([0]), True, "logits must be floating point, got torch.int64"),
        (torch.tensor([[1.5, -0.5]]), torch.tensor([0]), False, "probs must not be negative .*, got -0.5"),
        (torch.tensor([[0.5, 0.5], [0.9, 0.3]]), LABELS, False, "probs must sum to 1 in every row .*, row 1 sums to 1.2"),
        (GOOD, LABELS, True, "logits must not be probabilities"),
    ],
)
def test_bad_scores_are_refused_in_one_sentence(scores, labels, from_logits, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        check_scores(scores, labels, from_logits=from_logits)
    assert "\n" not in str(caught.value)


def test_large_finite_logits_are_finite():
    largest = torch.finfo(torch.float32).min
    check_scores(torch.tensor([[largest, largest, 0.0]]), torch.tensor([2]), from_logits=True)


def test_one_hot_logits_pass():
    check_scores(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([0]), from_logits=True)


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64])
def test_labels_of_any_integer_type_give_the_same(dtype):
    for function in (F.accuracy, F.negative_log_likelihood, F.brier_score, F.expected_calibration_error, F.adaptive_calibration_error):
        assert function(GOOD, LABELS.to(dtype)).item() == function(GOOD, LABELS).item()


def test_a_half_precision_softmax_over_many_classes_passes(rng):
    probs = torch.randn(64, 1000, generator=rng).softmax(dim=1).half()
    check_scores(probs, torch.zeros(64, dtype=torch.long), from_logits=False)


@pytest.mark.parametrize("correct", [0, 1])
def test_one_sample_and_certainty_work(correct):
    probs, target = torch.tensor([[1.0, 0.0]]), torch.tensor([1 - correct])
    assert F.expected_calibration_error(probs, target).item() == 1 - correct
    assert F.adaptive_calibration_error(probs, target).item() == 1 - correct
    assert F.accuracy(probs, target).item() == correct
    assert F.negative_log_likelihood(probs, target).item() == (0 if correct else float("inf"))


def test_num_bins_must_be_positive():
    for function in (F.expected_calibration_error, F.adaptive_calibration_error):
        with pytest.raises(InvalidInput, match="num_bins must be at least 1, got 0"):
            function(GOOD, LABELS, num_bins=0)
