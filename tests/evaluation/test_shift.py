"""Means over corruptions, their intervals and floors, and orders of methods that turn round, on scores made by hand."""

import numpy as np
import pytest
import torch

from rankmixup.errors import InvalidInput
from rankmixup.evaluation import Scores, ShiftSeverity
from rankmixup.evaluation.results import Estimate
from rankmixup.evaluation.shift import MeasuredRun, measure_run
from rankmixup.evaluation.shift_comparison import compare_methods
from rankmixup.evaluation.shift_results import ShiftedRun

N, K = 400, 4


def scores(shift: float, seed: int = 0, scale: float = 1.0) -> Scores:
    """Logits whose labels are drawn from them, multiplied afterwards: calibrated where `scale` is 1."""
    rng = torch.Generator().manual_seed(seed)
    logits = (2 - shift) * torch.randn(N, K, generator=rng, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(dim=1), 1, generator=rng).squeeze(1)
    return Scores(scale * logits, labels)


def measured(scale=1.0, names=("a", "b"), replicates=400) -> MeasuredRun:
    sets = {0: ["clean"], 3: list(names)}
    made = {("clean", 0): scores(0, 1, scale)} | {(name, 3): scores(0.5, 2 + place, scale) for place, name in enumerate(names)}
    options = {"source": "run", "run_seed": 0, "replicates": replicates}
    return measure_run(lambda *key: made[key], scores(0, 9, scale), sets, **options)


def test_a_calibrated_model_lies_within_its_floor_and_an_overconfident_one_beyond():
    calibrated, sharp = (measured(scale).result.severities[1].before["ece"] for scale in (1.0, 3.0))
    assert calibrated.floor.low <= calibrated.value <= calibrated.floor.high
    assert calibrated.low == 0
    assert sharp.value > sharp.floor.high
    assert sharp.p_value < 0.01
    assert 0 < sharp.low < sharp.value < sharp.high


def test_means_and_their_intervals_are_over_images_with_all_their_corruptions():
    found = measured().result.severities[1]
    both = [scores(0.5, seed) for seed in (2, 3)]
    right = np.mean([(each.scores.argmax(dim=1) == each.labels).numpy() for each in both], axis=0)
    assert found.before["accuracy"].value == pytest.approx(right.mean())
    # The standard error of a mean over images, each of which is a mean over corruptions.
    margin = 1.96 * right.std() / N**0.5
    assert found.before["accuracy"].low == pytest.approx(right.mean() - margin, abs=0.25 * margin)
    assert found.before["accuracy"].high == pytest.approx(right.mean() + margin, abs=0.25 * margin)


def test_the_temperature_of_clean_samples_is_used_for_all():
    found = measured(3.0)
    assert found.result.temperature == pytest.approx(3.0, rel=0.15)
    assert found.result.severities[1].after["ece"].value < 0.5 * found.result.severities[1].before["ece"].value
    assert found.result.severities[1].after["accuracy"].value == found.result.severities[1].before["accuracy"].value


def test_a_model_compared_with_itself_does_not_differ_and_one_with_another_does():
    same = measured()
    methods, reversals = compare_methods({"one": [same], "other": [same], "sharp": [measured(3.0)]}, "one")
    for each in methods["other"].differences:
        assert each.difference.value == 0
        assert each.difference.verdict == "no difference shown"
    assert methods["sharp"].difference(3, "before", "ece").verdict == "worse"
    assert methods["sharp"].difference(3, "before", "ece").low > 0
    assert reversals == ()


def test_sets_of_different_images_are_refused():
    made = {("clean", 0): scores(0), ("a", 1): scores(0), ("b", 1): Scores(scores(0).scores[:10], scores(0).labels[:10])}
    with pytest.raises(InvalidInput, match="the same number of images at severity 1, got"):
        measure_run(lambda *key: made[key], scores(0), {0: ["clean"], 1: ["a", "b"]}, source="", run_seed=0, replicates=5)


def _run(seed: int, clean: float, shifted: float) -> MeasuredRun:
    """A run with these ECEs, and nothing else that differs."""
    severities = tuple(
        ShiftSeverity(severity, 10, *({"accuracy": Estimate(0.5), "ece": Estimate(value), "nll": Estimate(1.0)} for _ in range(2)))
        for severity, value in ((0, clean), (5, shifted))
    )
    return MeasuredRun(ShiftedRun(f"run {seed}", seed, 1.0, severities), (), {})


def test_an_order_turns_round_where_both_directions_are_shown():
    noise = [0.001, -0.002, 0.0, 0.002, -0.001]
    first = [_run(seed, 0.02 + each, 0.20 - each) for seed, each in enumerate(noise)]
    second = [_run(seed, 0.05 - each, 0.10 + each) for seed, each in enumerate(noise)]
    third = [_run(seed, 0.06, 0.30 + each) for seed, each in enumerate(noise)]
    methods, reversals = compare_methods({"first": first, "second": second, "third": third}, "first")
    turned = [each for each in reversals if (each.metric, each.stage) == ("ece", "before")]
    (one,) = turned
    assert (one.clean_better, one.shifted_better) == ("first", "second")
    assert one.clean == pytest.approx(0.03)
    assert one.shifted == pytest.approx(0.10)
    from scipy.stats import ttest_1samp

    gaps = [[0.03 - 2 * each for each in noise], [0.10 - 2 * each for each in noise]]
    expected = max(ttest_1samp(gap, 0).pvalue for gap in gaps)
    assert one.p_value == pytest.approx(expected)
    assert one.p_holm == pytest.approx(3 * expected)  # of three pairs the one with the smallest p-value
    assert methods["second"].difference(5, "before", "ece").value == pytest.approx(-0.10)
