"""Tables fit 80 columns and cut no number."""

from dataclasses import replace

import pytest
import torch

import rankmixup as rm
from rankmixup.evaluation import METRICS, Calibration, Compared, Comparison, Detection, Difference, Estimate, Evaluation, NoiseFloor
from rankmixup.reports.comparison import comparison_view
from rankmixup.reports.demo import demo_table
from rankmixup.reports.markdown import evaluation_markdown
from rankmixup.reports.tables import evaluation_table, shown, shown_p_value, to_text

WIDEST = Estimate(1.0, 1.0, 1.0, NoiseFloor(1.0, 1.0, 1.0, 0.0001), 0.0001, "not distinguishable from calibrated")


def evaluation(**changes):
    metrics = dict.fromkeys(METRICS, WIDEST)
    calibration = Calibration("temperature", "ece-grid", {"temperature": 2.39501}, True, "val.npz", 5000, False, "", metrics)
    ood = {"svhn": Detection(26032, "max-probability", dict.fromkeys(("auroc", "aupr_in", "aupr_out", "fpr95"), WIDEST))}
    return Evaluation(
        **{"source": "a[b].npz", "n": 10000, "num_classes": 10, "metrics": metrics, "calibration": calibration, "ood": ood, **changes}
    )


def fits(text: str) -> str:
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text
    return text


def test_evaluation_table_fits_80_columns_with_the_widest_numbers():
    text = fits(to_text(evaluation_table(evaluation()), width=80))
    assert "a[b].npz: 10,000 samples, 10 classes" in text  # brackets are no markup
    assert "after temperature T = 2.395 (ece-grid), fitted on val.npz" in text
    row = next(line for line in text.splitlines() if line.startswith("ECE "))
    assert row.count("100.00 to 100.00") == 2
    assert "100.00 %" in row
    assert "<0.001" in row
    assert "from calibrated" in text
    assert "svhn: 26,032 OOD samples, detected by max-probability" in text
    for key in METRICS:
        assert METRICS[key].title in text


def test_what_was_not_computed_is_left_out_and_what_failed_is_shown():
    metrics = {**dict.fromkeys(METRICS), "nll": Estimate(float("inf"))}
    text = to_text(evaluation_table(evaluation(metrics=metrics, calibration=None, ood={}, failed=("nll>1",))), width=80)
    assert "inf" in text
    assert "ECE" not in text
    assert "None" not in text
    assert "failed: nll>1" in text


@pytest.mark.parametrize("metric", ["ece", "accuracy", "nll"])
def test_comparison_table_fits_80_columns(metric):
    difference = Difference(-1.0, -1.0, -1.0, 1e-9, p_holm=1e-9, verdict="no difference shown")
    keys = dict.fromkeys((metric, "accuracy"))
    models = {
        "runs/0123456789ab": {key: Compared(WIDEST) for key in keys},
        "runs/ba9876543210": {key: Compared(WIDEST, difference) for key in keys},
    }
    text = fits(to_text(comparison_view(Comparison(metric, "runs/0123456789ab", 10000, 10, models)), width=80))
    flat = "".join(text.split())
    assert ("-1.0000to-1.0000" if metric == "nll" else "-100.00to-100.00") in flat
    assert "<0.001" in text


def test_demo_table_fits_80_columns_and_counts_seeds():
    def seeds(*verdicts):
        found = [dict.fromkeys(METRICS, replace(WIDEST, verdict=verdict)) for verdict in verdicts]
        return [Evaluation("a", 1, 2, each, Calibration("temperature", "nll", {}, True, "val", 1, False, "", each)) for each in found]

    bad, good = "miscalibrated", "not distinguishable from calibrated"
    text = fits(
        to_text(
            demo_table({"RankMixup M-NDCG": seeds(bad, good, bad), "Mixup": seeds(good, good, good), "ce": seeds(bad, bad, bad)}), width=80
        )
    )
    flat = " ".join(text.split())
    assert "over 3 seeds" in flat
    assert "2 of 3" in flat
    assert "with T" in flat
    assert "one seed" in to_text(demo_table({"ce": seeds(bad)}), width=80)


def test_numbers_for_people():
    assert shown("accuracy", 0.75) == "75.00"
    assert shown("brier", 0.75) == "0.7500"
    assert shown("ece", -0.001, sign=True) == "-0.10"
    assert [shown_p_value(p) for p in (None, 0.0009, 0.001, 0.5)] == ["", "<0.001", "0.001", "0.500"]


@pytest.mark.parametrize(
    ("wrong", "said"), [(29, "Fewer than 30 predictions are wrong (29)"), (30, ""), (571, "predictions are right (29)")]
)
def test_intervals_of_few_errors_are_called_too_narrow(wrong, said):
    logits, target = torch.eye(3).repeat(200, 1), torch.arange(3).repeat(200)
    target[:wrong] = (target[:wrong] + 1) % 3
    evaluation = rm.evaluate(logits, target, replicates=10)
    for text in (to_text(evaluation_table(evaluation), 200), evaluation_markdown(evaluation)):
        assert ("intervals of NLL, Brier, AURC, E-AURC and AUROC are too narrow" in text) == bool(said)
        assert said in text
