"""The confidence above which predictions have the accuracy that was asked for."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

import rankmixup as rm
from rankmixup import random
from rankmixup.cli.main import main
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import Scores
from rankmixup.evaluation.acceptance import Kept, Threshold, check_threshold, choose_threshold
from tests.test_schemas import printed, validate


def make_scores(confidence, right) -> Scores:
    """Three classes; class 0 is always predicted."""
    confidence = torch.as_tensor(confidence, dtype=torch.float64)
    rest = (1 - confidence) / 2
    return Scores(torch.stack([confidence, rest, rest], dim=1), torch.as_tensor(right).logical_not().long(), from_logits=False)


def draw(samples: int, rng: torch.Generator) -> Scores:
    """Right as often as they are confident."""
    confidence = 0.4 + 0.6 * torch.rand(samples, generator=rng, dtype=torch.float64) ** 0.3
    return make_scores(confidence, torch.rand(samples, generator=rng, dtype=torch.float64) < confidence)


@pytest.mark.parametrize("accuracy", [0.88, 0.9, 0.99])
def test_the_largest_share_is_kept_that_is_shown_to_have_the_accuracy(accuracy):
    scores = draw(2000, random.stream(3, "acceptance"))
    rows = sorted(zip(scores.probs[:, 0].tolist(), (scores.labels == 0).tolist(), strict=True), reverse=True)
    expected = 0
    for twentieth in range(1, 21):
        kept = math.ceil(twentieth * 2000 / 20)
        right = sum(correct for _, correct in rows[:kept])
        if stats.binomtest(right, kept).proportion_ci(0.95, "exact").low >= accuracy:
            expected = kept
    found = choose_threshold(scores, accuracy, chosen_on="val")
    assert found.calibration == Kept(2000, expected, sum(correct for _, correct in rows[:expected]))
    assert (found.confidence is None) == (expected == 0) == (accuracy == 0.99)
    if expected > 0:
        assert rows[expected][0] < found.confidence < rows[expected - 1][0]
    assert int(found.accepts(scores.probs).sum()) == int(found.accepts(scores.probs.float()).sum()) == expected


def test_the_accuracy_is_seldom_lower_than_asked_for():
    """In at most 5 % of calibration sets; the confidence from which the observed accuracy is 90 % fails in half of them."""
    population, failed, found = draw(100_000, random.stream(0, "population")), 0, 0
    for seed in range(150):
        threshold = choose_threshold(draw(300, random.stream(seed, "calibration")), 0.9)
        accepted = check_threshold(threshold, population).test
        found += accepted.kept > 0
        failed += accepted.right < 0.9 * accepted.kept
    assert failed <= stats.binom.ppf(0.999, 150, 0.05)
    assert found > 75


def test_equal_confidences_are_accepted_together():
    confidence = torch.arange(20).remainder(4).mul(0.05).add(0.8).repeat(20)
    scores = make_scores(confidence, torch.arange(400) % 4 > 0)
    found = choose_threshold(scores, "accuracy=90%")
    assert found.calibration == Kept(400, 300, 300)
    assert found.confidence == pytest.approx(0.825)
    everything = choose_threshold(make_scores(confidence, torch.ones(400)), 0.9)
    assert (everything.confidence, everything.calibration) == (0.0, Kept(400, 400, 400))


def test_too_few_samples_accept_nothing_and_say_how_many_it_takes():
    found = choose_threshold(make_scores(torch.linspace(0.5, 0.99, 71), torch.ones(71)), "accuracy=95%", chosen_on="val")
    assert found.confidence is None
    assert not found.accepts(torch.ones(2, 1)).any()
    assert "nothing is accepted, 71 samples (val) show it at no confidence; it takes 72 without an error" in str(found)
    checked = check_threshold(found, make_scores([0.9], [1]))
    assert (checked.test.kept, checked.verdict) == (0, "nothing accepted")
    assert choose_threshold(make_scores(torch.linspace(0.5, 0.99, 72), torch.ones(72)), 0.95).confidence == 0


@pytest.mark.parametrize(("right", "verdict"), [(100, "holds"), (94, "within its interval"), (80, "does not hold")])
def test_other_samples_check_it(right, verdict):
    threshold = Threshold(0.95, 0.6, "val", Kept(100, 90, 89))
    found = check_threshold(threshold, make_scores([0.7] * 100 + [0.5] * 50, [1] * right + [0] * (150 - right)))
    assert found.test == Kept(150, 100, right)
    assert found.verdict == verdict
    assert found.to_dict()["test"]["share"]["value"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("given", ["accuracy", "accuracy=95", "ece=1%", "accuracy=0%", "accuracy=100%", 1.0, -0.5, math.nan, True])
def test_what_is_no_accuracy_is_refused(given):
    with pytest.raises(InvalidInput, match="accept_at must be an accuracy between 0 and 1, as in"):
        choose_threshold(make_scores([0.9], [1]), given)


def test_command_and_function_choose_on_held_out_samples_after_calibration(tmp_path, capsys):
    rng = np.random.default_rng(0)
    files = {}
    for name in ("val", "test"):
        logits = rng.normal(0, 3, (600, 3))
        chance = torch.from_numpy(logits).softmax(1).numpy()
        labels = np.array([rng.choice(3, p=row) for row in chance])
        files[name] = (2 * logits, labels)
        np.savez(tmp_path / f"{name}.npz", logits=2 * logits, labels=labels)
    arguments = [tmp_path / "test.npz", "--calibrate-on", tmp_path / "val.npz", "--replicates", "10", "--accept-at", "accuracy=90%"]
    told = printed(capsys, "evaluate", *arguments)
    validate("evaluate", told)
    report = rm.evaluate(*files["test"], calibrate_on=files["val"], replicates=10, accept_at=0.9)
    found = report.acceptance
    assert told["acceptance"] == {**found.to_dict(), "chosen_on": "val.npz"}
    confidence, correct = report.calibrated.probs.max(dim=1).values, report.calibrated.probs.argmax(dim=1) == report.calibrated.labels
    accepted = confidence >= found.threshold.confidence
    assert found.test == Kept(600, int(accepted.sum()), int(correct[accepted].sum()))
    assert 0.2 < found.test.share.value < 0.9
    assert found.test.accuracy.value > 0.86
    assert "accepted at accuracy 90 %: confidence of at least" in str(report)
    again = rm.evaluate(*files["test"], calibrate_on=files["val"], replicates=10, accept_at=found.threshold)
    assert again.acceptance == found
    assert main(["evaluate", str(tmp_path / "test.npz"), "--accept-at", "accuracy=90%"]) == 2
    assert "accept_at must go with held-out scores" in capsys.readouterr().err
