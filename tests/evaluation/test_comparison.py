import json

import pytest
import torch

import rankmixup as rm
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import Difference, Scores, compare_scores, holm
from tests.oracles import unchecked

FEW = {"replicates": 100}


@pytest.fixture
def models(rng):
    """A calibrated model, the same three times too sure, and a third that knows less; one test set."""
    logits = torch.randn(1500, 4, generator=rng, dtype=torch.float64) * 1.5
    labels = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
    noise = torch.randn(logits.shape, generator=rng, dtype=torch.float64)
    return {"calibrated": Scores(logits, labels), "too sure": Scores(3 * logits, labels), "noisy": Scores(logits + 2 * noise, labels)}


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
    assert set(data) == {"schema", "metric", "baseline", "n", "num_classes", "models"}
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
