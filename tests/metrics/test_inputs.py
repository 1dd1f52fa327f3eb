import functools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmixup import functional as F
from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import all_metrics
from rankmixup.evaluation.evaluation import evaluate
from rankmixup.metrics.inputs import check_scores, top_label
from rankmixup.posthoc import HistogramBinning, TemperatureScaling
from tests.oracles import unchecked

GOOD = torch.tensor([[0.5, 0.5], [0.25, 0.75]])
LABELS = torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("scores", "labels", "from_logits", "message"),
    [
        (torch.tensor([[float("nan"), 1.0], [0.0, 1.0]]), LABELS, True, "logits must be finite, row 0 is not"),
        (torch.tensor([[1.0, 2.0], [0.0, float("inf")]]), LABELS, True, "logits must be finite, row 1 is not"),
        (torch.tensor([[1.0, 2.0], [float("-inf"), float("inf")]]), LABELS, True, "logits must be finite, row 1 is not"),
        (GOOD, torch.tensor([0, 2]), False, "target must lie in 0..1, got 2"),
        (GOOD, torch.tensor([-1, 1]), False, "target must lie in 0..1, got -1"),
        (GOOD, torch.tensor([0, 1, 0]), False, r"target must hold one class index for each of 2 samples, got shape \[3\]"),
        (GOOD[:0], LABELS[:0], False, r"probs must hold at least one sample and one class, got shape \[0, 2\]"),
        (
            GOOD,
            LABELS.float(),
            False,
            "target must hold class indices, got dtype torch.float32; this library is for single-label classification",
        ),
        (GOOD, LABELS.bool(), False, "target must hold class indices, got dtype torch.bool"),
        (GOOD, LABELS.unsqueeze(1), False, r"target must hold one class index for each of 2 samples, got shape \[2, 1\]"),
        (GOOD, torch.eye(2, dtype=torch.long), False, r"got one-hot rows of shape \[2, 2\]; target.argmax\(1\) are the indices"),
        (GOOD, torch.eye(2), False, r"target.argmax\(1\) are the indices"),
        (GOOD, torch.ones(2, 2, dtype=torch.long), False, r"got shape \[2, 2\]; this library is for single-label classification"),
        (GOOD, torch.tensor([True, False]), False, "target must hold class indices, got dtype torch.bool"),
        (torch.tensor([[float("nan"), 1.0], [0.0, 1.0]]), LABELS, False, "probs must be finite, row 0 is not"),
        (torch.tensor([[0.0, 1.0], [float("-inf"), 1.0]]), LABELS, True, "logits must be finite, row 1 is not"),
        (torch.zeros(2, 0), LABELS, True, r"logits must hold at least one sample and one class, got shape \[2, 0\]"),
        (GOOD.unsqueeze(0), LABELS, False, r"probs must have shape \[N, K\], or \[N\] or \[N, 1\] for two classes, got \[1, 2, 2\]"),
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


FUNCTIONS = [
    *(F.accuracy, F.negative_log_likelihood, F.brier_score, F.expected_calibration_error, F.maximum_calibration_error),
    *(F.adaptive_calibration_error, F.classwise_calibration_error, F.overconfidence_error, F.underconfidence_error),
    *(F.smooth_calibration_error, F.debiased_calibration_error, F.ks_calibration_error, F.aurc, F.excess_aurc, F.correctness_auroc),
    *(all_metrics, lambda probs, target, **more: F.long_tail_metrics(probs, target, [2] * (probs.shape[-1] - 1) + [1], **more)),
]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    ("scores", "labels"),
    [
        (GOOD, LABELS.float()),
        (GOOD, torch.eye(2)),
        (GOOD, LABELS[:1]),
        (GOOD, LABELS + 1),
        (GOOD[:0], LABELS[:0]),
        (GOOD[0], LABELS[:1]),
        (GOOD[0], torch.tensor([0, 2])),
        (GOOD.unsqueeze(0), LABELS),
        (GOOD * torch.nan, LABELS),
        (GOOD - 1, LABELS),
        (GOOD * 2, LABELS),
        (GOOD.long(), LABELS),
    ],
)
def test_every_metric_refuses_bad_input(function, scores, labels):
    """As users have it, without enforced annotations: one sentence, whatever metric is asked for."""
    with unchecked(), pytest.raises(InvalidInput, match=r"^[^\n]+ must [^\n]+$"):
        function(scores, labels, from_logits=False)


def test_large_finite_logits_are_finite():
    largest = torch.finfo(torch.float32).min
    check_scores(torch.tensor([[largest, largest, 0.0]]), torch.tensor([2]), from_logits=True)


def test_one_hot_logits_pass():
    check_scores(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([0]), from_logits=True)


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_labels_of_any_integer_type_and_scores_of_any_layout_give_the_same(function, dtype, rng):
    probs, labels = torch.randn(40, 6, generator=rng).softmax(1), torch.randint(6, (40,), generator=rng)
    expected = function(probs, labels, from_logits=False)
    for layout in (probs, probs.T.contiguous().T, probs.repeat_interleave(2, 1)[:, ::2]):
        found = function(layout, labels.to(dtype), from_logits=False)
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("row", [0, 70, 99])
def test_the_row_is_named_whichever_chunk_it_is_in(row, rng, monkeypatch):
    monkeypatch.setattr("rankmixup.metrics.inputs._CHUNK", 64)
    logits, labels = torch.randn(100, 4, generator=rng), torch.randint(4, (100,), generator=rng)
    probs = logits.softmax(1)
    logits[row, 2] = torch.inf
    probs[row] *= 1.5
    with pytest.raises(InvalidInput, match=f"logits must be finite, row {row} is not"):
        check_scores(logits, labels, from_logits=True)
    with pytest.raises(InvalidInput, match=f"row {row} sums to 1.5"):
        check_scores(probs, labels, from_logits=False)


def test_rows_that_look_like_probabilities_are_logits_if_one_does_not():
    check_scores(torch.cat([GOOD, torch.tensor([[3.0, 1.0]])]), torch.tensor([0, 1, 0]), from_logits=True)


def test_the_first_of_equal_scores_is_the_prediction():
    probs = torch.tensor([[0.5, 0.5], [0.5, 0.5], [0.25, 0.75]])
    for scores, from_logits in ((probs, False), (probs.log(), True)):
        assert top_label(scores, torch.tensor([0, 1, 1]), from_logits=from_logits)[1].tolist() == [1, 0, 1]


@settings(max_examples=100)
@given(st.integers(1, 12), st.integers(2, 7), st.integers(0, 10**6), st.booleans(), st.sampled_from([1, 2, 5]))
def test_top_label_is_that_of_max_whatever_the_ties(samples, classes, seed, from_logits, chunk):
    rng = random.stream(seed, "properties")
    scores = torch.randint(3, (samples, classes), generator=rng, dtype=torch.float64)  # ties everywhere
    target = torch.randint(classes, (samples,), generator=rng)
    probs = scores.softmax(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rankmixup.metrics.inputs._CHUNK", chunk * classes)
        confidence, correct = top_label(scores - 7 if from_logits else probs, target, from_logits=from_logits)
    top, prediction = probs.max(1)
    torch.testing.assert_close(confidence, top)
    assert correct.tolist() == (prediction == target).tolist()


def test_a_half_precision_softmax_over_many_classes_passes(rng):
    probs = torch.randn(64, 1000, generator=rng).softmax(dim=1).half()
    check_scores(probs, torch.zeros(64, dtype=torch.long), from_logits=False)


@pytest.mark.parametrize("correct", [0, 1])
def test_one_sample_and_certainty_work(correct):
    probs, target = torch.tensor([[1.0, 0.0]]), torch.tensor([1 - correct])
    assert F.expected_calibration_error(probs, target, from_logits=False).item() == 1 - correct
    assert F.adaptive_calibration_error(probs, target, from_logits=False).item() == 1 - correct
    assert F.accuracy(probs, target, from_logits=False).item() == correct
    assert F.negative_log_likelihood(probs, target, from_logits=False).item() == (0 if correct else float("inf"))


@pytest.mark.parametrize(
    ("num_bins", "message"),
    [
        (0, "at least 1, got 0"),
        (-3, "at least 1, got -3"),
        (2.5, "a whole number, got 2.5"),
        (True, "a whole number, got True"),
        ("15", "a whole number, got '15'"),
        (1001, "at most 1000, got 1001"),
        (10**12, "at most 1000, got 1000000000000"),
    ],
)
def test_num_bins_must_be_a_whole_number_within_reason(num_bins, message):
    by_function = (F.expected_calibration_error, F.adaptive_calibration_error, F.classwise_calibration_error, all_metrics, evaluate)
    for function in by_function:
        with unchecked(), pytest.raises(InvalidInput, match=f"num_bins must be {message}"):
            function(GOOD, LABELS, num_bins=num_bins, from_logits=False)
    for calibrator in (HistogramBinning, TemperatureScaling):
        with unchecked(), pytest.raises(InvalidInput, match=f"num_bins must be {message}"):
            calibrator(num_bins=num_bins)


def test_num_bins_of_numpy_are_whole_numbers():
    with unchecked():
        assert F.expected_calibration_error(GOOD, LABELS, num_bins=np.int64(3), from_logits=False) == F.expected_calibration_error(
            GOOD, LABELS, num_bins=3, from_logits=False
        )


def test_threads_share_chunks_and_change_nothing(rng, monkeypatch, request):
    monkeypatch.setattr("rankmixup.metrics.inputs._CHUNK", 64)
    request.addfinalizer(functools.partial(torch.set_num_threads, torch.get_num_threads()))
    logits, labels = torch.randn(500, 8, generator=rng), torch.randint(8, (500,), generator=rng)
    broken = logits.index_fill(0, torch.tensor([77, 400]), torch.nan)
    values = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        values.append(all_metrics(logits, labels, from_logits=True))
        with pytest.raises(InvalidInput, match="logits must be finite, row 77 is not"):
            all_metrics(broken, labels, from_logits=True)
        assert torch.get_num_threads() == threads
    assert values[0] == pytest.approx(values[1], abs=1e-15)  # torch adds up a large grid in as many parts as there are threads


def test_scores_are_not_written_to_and_need_no_gradient(rng):
    logits, labels = torch.randn(50, 8, generator=rng, requires_grad=True), torch.randint(8, (50,), generator=rng)
    for scores, from_logits in ((logits, True), (logits.detach().softmax(1), False)):
        kept = scores.detach().clone()
        all_metrics(scores, labels, from_logits=from_logits)
        assert torch.equal(scores, kept)
        assert scores._version == 0
