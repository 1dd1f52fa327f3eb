"""Evaluation: scores and their files, every metric with its interval and noise floor, comparison of models, OOD detection."""

from rankmixup.evaluation.classes import ClassMetrics, ClassResult
from rankmixup.evaluation.comparison import compare, compare_evaluations, compare_scores
from rankmixup.evaluation.evaluation import evaluate, evaluate_scores, fit_calibrator, fit_temperatures, predict_batches
from rankmixup.evaluation.groups import Gap, Grouping, GroupMetrics, GroupStage
from rankmixup.evaluation.noise_floor import ece_noise_floor
from rankmixup.evaluation.paired import paired_comparison
from rankmixup.evaluation.registry import METRICS, Metric, register_metric
from rankmixup.evaluation.results import Calibration, Compared, Comparison, Detection, Difference, Estimate, Evaluation, NoiseFloor
from rankmixup.evaluation.scores import Scores
from rankmixup.evaluation.shift_results import Reversal, Shift, ShiftCell, ShiftDifference, ShiftedMethod, ShiftedRun, ShiftSeverity
from rankmixup.evaluation.significance import holm, mcnemar, over_seeds
from rankmixup.evaluation.uncertainty import all_metrics, metric_uncertainty

__all__ = ["METRICS", "Calibration", "Compared", "Comparison", "Detection", "Difference", "Estimate", "Evaluation", "Metric", "NoiseFloor"]
__all__ += ["Reversal", "Scores", "Shift", "ShiftCell", "ShiftDifference", "ShiftSeverity", "ShiftedMethod", "ShiftedRun"]
__all__ += ["all_metrics", "compare", "compare_evaluations", "compare_scores", "ece_noise_floor", "evaluate", "evaluate_scores"]
__all__ += [
    "fit_calibrator",
    "fit_temperatures",
    "holm",
    "mcnemar",
    "metric_uncertainty",
    "over_seeds",
    "paired_comparison",
    "predict_batches",
]
__all__ += ["ClassMetrics", "ClassResult", "Gap", "GroupMetrics", "GroupStage", "Grouping", "register_metric"]
