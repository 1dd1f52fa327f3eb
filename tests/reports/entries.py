"""Models to report on, made of random scores; evaluations are filled in directly, so that no resampling is waited for."""

from dataclasses import replace
from typing import Any

import torch

from rankmixup import random
from rankmixup.evaluation import METRICS, Calibration, Detection, Estimate, Evaluation, NoiseFloor, Scores, all_metrics
from rankmixup.reports.entry import ReportEntry
from rankmixup.runs.records import MixedPredictions

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


def estimates(scores: Scores) -> dict[str, Estimate | None]:
    values = all_metrics(scores.scores, scores.labels, from_logits=scores.from_logits)
    found = {key: None if (value := values[key]) is None else Estimate(value, 0.9 * value, 1.1 * value) for key in METRICS}
    ece = found["ece"]
    assert ece is not None
    p_value, verdict = (0.0005, "miscalibrated") if ece.value > 0.08 else (0.25, "not distinguishable from calibrated")
    return found | {"ece": replace(ece, floor=NoiseFloor(0.03, 0.02, 0.05, p_value), p_value=p_value, verdict=verdict)}


def make_entry(name: str = "model", *, calibrate: bool = True, class_names: list[str] | None = None, **kind: Any) -> ReportEntry:
    scores = replace(make_scores(**kind), class_names=None if class_names is None else tuple(class_names))
    calibrated, calibration = None, None
    if calibrate:
        calibrated = Scores(scores.logits / 2.5, scores.labels)
        calibration = Calibration("temperature", "nll", {"temperature": 2.5}, True, "val.npz", 200, False, "", estimates(calibrated))
    classes = scores.scores.shape[1]
    unknown = make_scores(200, classes, sharpness=1.0, seed=9)
    detection = Detection(200, "entropy", {"auroc": Estimate(0.8, 0.75, 0.85)})
    evaluation = Evaluation(
        f"{name}.npz",
        len(scores),
        classes,
        estimates(scores),
        calibration,
        {"svhn": detection},
        test=scores,
        calibrated=calibrated,
        ood_scores={"svhn": unknown},
    )
    protocol = {"seed": 3, "splits": {"test": "400 samples"}, "versions": {"torch": "2.x"}}
    mixed = MixedPredictions(make_scores(300, classes, seed=5).logits.float(), torch.linspace(0, 1, 300))
    return ReportEntry(name, evaluation, protocol, mixed)
