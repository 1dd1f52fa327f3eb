"""Evaluation: scores and their files, every metric with its interval and noise floor, comparison of models, OOD detection."""

from rankmixup.evaluation.comparison import ComparisonReport, compare_scores
from rankmixup.evaluation.evaluation import Evaluation, evaluate, evaluate_scores
from rankmixup.evaluation.noise_floor import NoiseFloor, ece_noise_floor
from rankmixup.evaluation.registry import METRICS, Metric
from rankmixup.evaluation.scores import Scores
from rankmixup.evaluation.significance import Comparison, Interval, holm, mcnemar, over_seeds, paired_comparison
from rankmixup.evaluation.suite import all_metrics
from rankmixup.evaluation.uncertainty import Uncertain, metric_uncertainty

__all__ = [
    "METRICS",
    "Comparison",
    "ComparisonReport",
    "Evaluation",
    "Interval",
    "Metric",
    "NoiseFloor",
    "Scores",
    "Uncertain",
    "all_metrics",
    "compare_scores",
    "ece_noise_floor",
    "evaluate",
    "evaluate_scores",
    "holm",
    "mcnemar",
    "metric_uncertainty",
    "over_seeds",
    "paired_comparison",
]
