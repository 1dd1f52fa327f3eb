import json

import pytest
import torch

import rankmixup as rm
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import Difference, Scores, compare_scores, evaluate_scores, holm
from rankmixup.evaluation.paired_tests import paired_tests
from tests.oracles import unchecked

FEW = {"replicates": 100}


@pytest.fixture
def models(rng):
    """A calibrated model, the same three times too sure, and a third that knows less; one test set."""
    logits = torch.randn(1500, 4, generator=rng, dtype=torch.float64) * 1.5
    labels = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
    noise = torch.randn(logits.shape, generator=rng, dtype=torch.float64)
    return {"calibrated": Scores(logits, labels), "too sure": Scores(3 * logits, labels), "noisy": Scores(logits + 2 * noise, labels)}


def test_names_of_models_and_conditions_are_texts():
    models = {"a": [[2.0, 0.0], [0.0, 1.0]], "b": [[1.0, 0.0], [0.0, 2.0]]}
    assert rm.compare(models, [0, 0], fail_if="b.accuracy<90%", replicates=5).failed == ("b.accuracy<90%",)
    for wrong in (3, [3]):
        with unchecked(), pytest.raises(InvalidInput, match="fail_if must be a condition or a list of conditions, got"):
            rm.compare(models, [0, 0], fail_if=wrong, replicates=5)
    with unchecked(), pytest.raises(InvalidInput, match="models must be named by texts, got 1"):
        rm.compare({1: models["a"], 2: models["b"]}, [0, 0], replicates=5)


def test_what_differs_and_what_does_not(models):
    report = compare_scores(models, **FEW)
    assert report.baseline == "calibrated"
    assert report.models["calibrated"]["ece"].difference is None
    sure = report.models["too sure"]
    assert sure["ece"].difference.verdict == "worse"
    assert sure["ece"].difference.low > 0
    same = Difference(0.0, 0.0, 0.0, p_value=1.0, p_holm=1.0, test="McNemar", verdict="no difference shown")  # the same predictions
    assert sure["accuracy"].difference == same
    noisy = report.models["noisy"]["accuracy"].difference
    assert noisy.verdict == "worse"
    assert noisy.high < 0
    values = [report.models[name]["ece"].estimate.value for name in ("too sure", "calibrated")]
    assert sure["ece"].difference.value == pytest.approx(values[0] - values[1], abs=1e-12)


def test_arrays_and_lists_are_compared_as_scores_are(models):
    pair = {name: models[name] for name in ("calibrated", "too sure")}
    arrays = {"calibrated": pair["calibrated"].scores.numpy(), "too sure": pair["too sure"].scores.tolist()}
    found = rm.compare(arrays, pair["calibrated"].labels.tolist(), metric="nll", **FEW)
    expected = compare_scores(pair, metric="nll", **FEW).models["too sure"]["nll"].difference
    assert found.models["too sure"]["nll"].difference.value == pytest.approx(expected.value, rel=1e-5)
    assert "baseline calibrated" in str(found)
    with unchecked(), pytest.raises(InvalidInput, match="models must name scores"):
        rm.compare([arrays], [0])


def test_the_baseline_may_be_any_and_turns_the_sign(models):
    pair = {name: models[name] for name in ("calibrated", "too sure")}
    forth, back = (compare_scores(pair, baseline=name, **FEW) for name in pair)
    there, here = forth.models["too sure"]["ece"].difference, back.models["calibrated"]["ece"].difference
    assert here.value == pytest.approx(-there.value, abs=1e-12)
    assert (there.verdict, here.verdict) == ("worse", "better")


def test_p_values_are_corrected_over_the_whole_table(models):
    report = compare_scores(models, **FEW)
    differences = [report.models[name][key].difference for name in ("too sure", "noisy") for key in ("ece", "accuracy")]
    assert [each.p_holm for each in differences] == list(holm([each.p_value for each in differences]))
    assert len(differences) == 4


def test_accuracy_alone_is_compared_once(models):
    report = compare_scores(models, metric="accuracy", **FEW)
    assert [list(entries) for entries in report.models.values()] == [["accuracy"]] * 3


def test_logits_and_probabilities_of_one_model_are_equal(models):
    calibrated = models["calibrated"]
    report = compare_scores({"logits": calibrated, "probs": Scores(calibrated.probs, calibrated.labels, from_logits=False)}, **FEW)
    assert report.models["probs"]["ece"].difference.value == pytest.approx(0, abs=1e-12)
    assert report.models["probs"]["ece"].difference.verdict == "no difference shown"


def test_json(models):
    data = json.loads(json.dumps(compare_scores(models, metric="nll", **FEW).to_dict(), allow_nan=False))
    assert set(data) == {"schema", "metric", "baseline", "n", "num_classes", "models", "calibration", "failed", "metrics"}
    assert (data["metric"], data["n"], data["num_classes"]) == ("nll", 1500, 4)
    assert set(data["models"]["noisy"]["nll"]["difference"]) == {"value", "low", "high", "p_value", "p_holm", "test", "verdict"}


def test_refusals(models):
    calibrated = models["calibrated"]
    shorter = Scores(calibrated.scores[1:], calibrated.labels[1:])
    other = Scores(calibrated.scores, calibrated.labels.roll(1))
    narrow = Scores(torch.cat([calibrated.scores, calibrated.scores[:, :1]], dim=1), calibrated.labels)
    differing = int((other.labels != calibrated.labels).sum())
    for second, message in (
        (shorter, "b and a must be scores of the same samples, got 1499 and 1500"),
        (other, f"b and a must have the same labels in the same order, {differing} of 1500 differ"),
        (narrow, "b and a must have the same number of classes, got 5 and 4"),
    ):
        with pytest.raises(InvalidInput, match=message):
            compare_scores({"a": calibrated, "b": second}, **FEW)
    with pytest.raises(InvalidInput, match="a comparison must have at least two models, got 1"):
        compare_scores({"a": calibrated}, **FEW)
    with pytest.raises(InvalidInput, match="unknown metric 'eec'; did you mean 'ece'"):
        compare_scores(models, metric="eec", **FEW)
    with pytest.raises(InvalidInput, match="unknown baseline 'calibratd'; did you mean 'calibrated'"):
        compare_scores(models, baseline="calibratd", **FEW)
    with pytest.raises(InvalidInput, match="metric must be one that calibrated has, it has no top5_accuracy"):
        compare_scores(models, metric="top5_accuracy", **FEW)


def test_models_are_compared_after_calibration(models):
    """Three times too sure: its temperature is three times as large, and what is left does not differ at all."""
    pair = {name: models[name] for name in ("calibrated", "too sure")}
    report = compare_scores(pair, pair, fitted_on={"too sure": "val.npz"}, metric=["ece", "nll"], **FEW)
    fits = [report.calibration[name] for name in pair]
    assert fits[1].parameters["temperature"] == pytest.approx(3 * fits[0].parameters["temperature"], rel=1e-4)
    assert [fit.fitted_on for fit in fits] == ["calibrate_on", "val.npz"]
    assert report.metrics == ("ece", "nll", "accuracy")
    sure = report.models["too sure"]
    assert sure["nll"].difference.value == pytest.approx(0, abs=1e-6)
    assert sure["nll"].difference.verdict == "no difference shown"
    before = compare_scores(pair, metric=["ece", "nll"], **FEW).models["too sure"]
    assert sure["nll"].before == before["nll"].estimate
    assert before["nll"].before is None
    data = report.to_dict()
    assert data["calibration"]["too sure"]["fitted_on"] == "val.npz"
    assert "metrics" not in data["calibration"]["too sure"]
    assert data["models"]["too sure"]["nll"]["before"]["value"] == before["nll"].estimate.value


def test_the_function_calibrates_as_evaluate_does(models):
    target = models["noisy"].labels
    logits = {name: models[name].scores for name in ("calibrated", "noisy")}
    held_out = {name: (each[:500], target[:500]) for name, each in logits.items()}
    found = rm.compare(logits, target, calibrate_on=held_out, metric="nll", **FEW)
    alone = rm.evaluate(logits["noisy"], target, calibrate_on=held_out["noisy"], **FEW)
    assert found.models["noisy"]["nll"].estimate == alone.calibration.metrics["nll"]
    fitted = {name: rm.TemperatureScaling().fit(*each) for name, each in held_out.items()}
    same = rm.compare(logits, target, calibrate_on=fitted, metric="nll", **FEW)
    assert same.models["noisy"]["nll"].difference == found.models["noisy"]["nll"].difference
    with pytest.raises(InvalidInput, match="calibrate_on must have held-out scores of every model, it has none of 'noisy'"):
        rm.compare(logits, target, calibrate_on={"calibrated": held_out["calibrated"]}, **FEW)
    with pytest.raises(InvalidInput, match="unknown model in calibrate_on 'nosy'; did you mean 'noisy'"):
        rm.compare(logits, target, calibrate_on={**held_out, "nosy": held_out["noisy"]}, **FEW)
    with unchecked(), pytest.raises(InvalidInput, match="calibrate_on must name held-out scores and labels of each model"):
        rm.compare(logits, target, calibrate_on=held_out["noisy"], **FEW)


def test_conditions_are_about_what_the_comparison_shows(models):
    plain = compare_scores(models, **FEW)
    difference = plain.models["too sure"]["ece"].difference
    middle = (difference.low + difference.value) / 2
    holds = [
        f"'too sure'.ece - calibrated.ece > {middle!r}",
        f"calibrated.ece - 'too sure'.ece < {-middle!r}",
        f"calibrated.ece - 'too sure'.ece > {-difference.high - 1e-9!r}:low",
        "noisy.accuracy - 'too sure'.accuracy < 0:high",  # neither is the baseline
        "'too sure'.ece > 5%:low",
    ]
    fails = [f"'too sure'.ece - calibrated.ece > {middle!r}:low", "noisy.accuracy - 'too sure'.accuracy > 0", "calibrated.ece > 20%"]
    found = compare_scores(models, fail_if=[*fails, *holds], **FEW)
    assert found.failed == tuple(holds)
    assert found.models == plain.models
    assert found.to_dict()["failed"] == holds


def test_metrics_whose_difference_has_no_interval_are_refused(models):
    with pytest.raises(InvalidInput, match=r"metric must be one whose difference has an interval: accuracy, .*; got 'smooth_ece'"):
        compare_scores(models, metric=["ece", "smooth_ece"], **FEW)


def test_models_of_a_report_are_tested_or_the_reason_is_given(models):
    pair = {name: evaluate_scores(models[name], models["calibrated"], **FEW) for name in ("calibrated", "too sure")}
    before, after = paired_tests(pair, **FEW).comparisons
    assert (before.calibration, list(after.calibration)) == (None, list(pair))
    assert before.metrics == ("ece", "nll", "accuracy")
    direct = compare_scores({name: models[name] for name in pair}, metric=("ece", "nll"), **FEW)
    assert before == direct
    short = Scores(models["noisy"].scores[:9], models["noisy"].labels[:9])
    odd = paired_tests({**pair, "noisy": evaluate_scores(short, **FEW)}, **FEW)
    assert odd == ((), "noisy and calibrated must be scores of the same samples, got 9 and 1500")
    assert paired_tests({"one": pair["calibrated"]}) == ((), "")
