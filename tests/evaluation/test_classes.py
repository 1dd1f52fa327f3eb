import pytest
import torch

import rankmixup as rm
from rankmixup.evaluation import Scores
from rankmixup.evaluation.classes import class_results
from rankmixup.metrics import classwise_calibration_error, expected_calibration_error, negative_log_likelihood
from tests.reports.entries import make_scores


def test_every_class_is_evaluated_on_its_samples_before_and_after():
    before, after = make_scores(200, 4), make_scores(200, 4, sharpness=1.0)
    found = class_results(before, Scores(after.scores, before.labels), 10)
    for scores, stage in ((before, "before"), (Scores(after.scores, before.labels), "after")):
        for each in found:
            mine, stated = scores.labels == each.index, getattr(each, stage)
            part = scores.scores[mine], scores.labels[mine]
            assert each.n == int(mine.sum())
            assert stated.accuracy == pytest.approx((part[0].argmax(1) == part[1]).double().mean().item())
            assert stated.accuracy_low < stated.accuracy < stated.accuracy_high
            assert stated.mean_confidence == pytest.approx(part[0].softmax(1).amax(1).mean().item())
            assert stated.ece == pytest.approx(expected_calibration_error(*part, num_bins=10).item())
            assert stated.nll == pytest.approx(negative_log_likelihood(*part).item())
        mean = sum(getattr(each, stage).classwise_ece for each in found) / 4
        assert mean == pytest.approx(classwise_calibration_error(scores.scores, scores.labels, num_bins=10).item())


def test_classes_in_json():
    scores = Scores(torch.tensor([[2.0, 0.0, 1.0]]), torch.tensor([0]), class_names=("a", "b", "c"))
    first, second, _ = (each.to_dict() for each in class_results(scores))
    assert list(first) == ["class", "name", "n", "before", "after"]
    assert (first["name"], first["n"], first["after"]) == ("a", 1, None)
    assert second["before"] | {"classwise_ece": 0} == dict.fromkeys(first["before"]) | {"classwise_ece": 0}
    report = rm.evaluate([[2.0, 0.0], [0.0, 1.0]], [0, 0], replicates=5).to_dict()
    assert [each["n"] for each in report["classes"]] == [2, 0]
