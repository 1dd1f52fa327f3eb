"""Models to report on, made of random scores; evaluations are filled in directly, so that no resampling is waited for."""

from typing import Any

import torch
from torch import Tensor

from rankmixup import random
from rankmixup.evaluation import Scores, all_metrics
from rankmixup.evaluation.evaluation import Evaluation
from rankmixup.evaluation.registry import METRICS
from rankmixup.reports.entry import ReportEntry

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "</script><svg onload=alert(3)>",
    "=1+1",
    "50 % of $x_1$ & {y} | z",
    "[b]*",
    "{{ 7 * 7 }}",
    "\\back`tick`\nand a line",
    'a, "b"',
    "日本語 😀",
]
"""Names of classes that mean something to one program or another."""


def make_scores(samples: int = 400, classes: int = 10, *, sharpness: float = 3.0, seed: int = 0) -> Scores:
    """Overconfident scores, right about two times in three."""
    rng = random.stream(seed, "report entries")
    labels = torch.randint(classes, (samples,), generator=rng)
    logits = torch.randn(samples, classes, generator=rng)
    logits[torch.arange(samples), labels] += 1.5
    return Scores((sharpness * logits).double(), labels)


def metric_entries(scores: Scores) -> dict[str, dict[str, Any] | None]:
    values = all_metrics(scores.scores, scores.labels, from_logits=scores.from_logits)
    entries: dict[str, dict[str, Any] | None] = dict.fromkeys(METRICS)
    for key, value in values.items():
        if value is not None:
            entries[key] = {"value": float(value), "low": 0.9 * value, "high": 1.1 * value, "floor": None, "p_value": None, "verdict": None}
    ece = entries["ece"]
    assert ece is not None
    bad = ece["value"] > 0.08
    judgement = (0.0005, "miscalibrated") if bad else (0.25, "not distinguishable from calibrated")
    ece |= {"floor": {"mean": 0.03, "low": 0.02, "high": 0.05}, "p_value": judgement[0], "verdict": judgement[1]}
    return entries


def make_entry(name: str = "model", *, calibrate: bool = True, class_names: list[str] | None = None, **kind: Any) -> ReportEntry:
    scores = make_scores(**kind)
    calibrated, calibration = None, None
    if calibrate:
        calibrated = Scores(scores.logits / 2.5, scores.labels)
        calibration = {
            "method": "temperature",
            "objective": "nll",
            "parameters": {"temperature": 2.5},
            "converged": True,
            "fitted_on": "val.npz",
            "same_data": False,
            "metrics": metric_entries(calibrated),
        }
    classes = scores.scores.shape[1]
    unknown = make_scores(200, classes, sharpness=1.0, seed=9)
    detection = {"n": 200, "score": "entropy", "metrics": {"auroc": {"value": 0.8, "low": 0.75, "high": 0.85}}}
    mixed: tuple[Tensor, Tensor] = (make_scores(300, classes, seed=5).logits.float(), torch.linspace(0, 1, 300))
    return ReportEntry(
        name,
        Evaluation(f"{name}.npz", len(scores), classes, metric_entries(scores), calibration, {"svhn": detection}),
        scores,
        calibrated,
        class_names,
        {"seed": 3, "splits": {"test": "400 samples"}, "versions": {"torch": "2.x"}},
        mixed,
        {"svhn": unknown},
    )
