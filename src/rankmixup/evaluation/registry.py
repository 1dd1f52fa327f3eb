"""What is known of each metric: everything that lists, shows or compares metrics reads it here."""

import math
from dataclasses import dataclass
from typing import Literal

from rankmixup.errors import unknown_name

__all__ = ["DETECTION_METRICS", "METRICS", "Metric", "metric_named"]


@dataclass(frozen=True)
class Metric:
    """One metric of an evaluation."""

    key: str
    """Its name in JSON, tables for programs and conditions."""
    title: str
    """Its name in tables for people."""
    unit: Literal["%", ""] = "%"
    """Whether people are shown hundredths."""
    higher_is_better: bool = False
    most: float = 1.0
    """Its largest possible value; the smallest is 0."""

    @property
    def summary(self) -> str:
        """One line about it."""
        return f"{self.title}, 0 to {self.most:g}, {'higher' if self.higher_is_better else 'lower'} is better"

    def better(self, first: float, second: float) -> bool:
        """Whether the first value is the better one."""
        return first > second if self.higher_is_better else first < second


def _by_key(*metrics: Metric) -> dict[str, Metric]:
    return {metric.key: metric for metric in metrics}


METRICS = _by_key(
    Metric("accuracy", "accuracy", higher_is_better=True),
    Metric("top5_accuracy", "top-5 accuracy", higher_is_better=True),
    Metric("nll", "NLL", unit="", most=math.inf),
    Metric("brier", "Brier", unit="", most=2.0),
    Metric("ece", "ECE"),
    Metric("ece_l2", "ECE, L2"),
    Metric("mce", "MCE"),
    Metric("aece", "AECE"),
    Metric("classwise_ece", "classwise ECE"),
    Metric("classwise_ece_sum", "classwise sum", most=2.0),
    Metric("oe", "OE"),
    Metric("ue", "UE"),
    Metric("smooth_ece", "smooth ECE"),
    Metric("debiased_ece", "debiased ECE"),
    Metric("ks", "KS error"),
    Metric("aurc", "AURC"),
    Metric("eaurc", "E-AURC"),
    Metric("auroc_correct", "AUROC, correct", higher_is_better=True),
)
"""Every metric of an evaluation by key, in the order in which they are shown."""
DETECTION_METRICS = _by_key(
    Metric("auroc", "AUROC", higher_is_better=True),
    Metric("aupr_in", "AUPR, in", higher_is_better=True),
    Metric("aupr_out", "AUPR, out", higher_is_better=True),
    Metric("fpr95", "FPR at 95 %"),
)
"""Every metric of out-of-distribution detection."""


def metric_named(key: str) -> Metric:
    """The metric of this key, of either kind."""
    known = METRICS | DETECTION_METRICS
    if key not in known:
        raise unknown_name("metric", key, known)
    return known[key]
