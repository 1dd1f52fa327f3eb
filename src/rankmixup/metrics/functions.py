"""Every metric as a pure function."""

from rankmixup.metrics.calibration import (
    adaptive_calibration_error,
    debiased_calibration_error,
    expected_calibration_error,
    ks_calibration_error,
    maximum_calibration_error,
    overconfidence_error,
    underconfidence_error,
)
from rankmixup.metrics.classwise import classwise_calibration_error
from rankmixup.metrics.longtail import class_groups, long_tail_metrics
from rankmixup.metrics.ood import ood_detection, ood_scores
from rankmixup.metrics.proper import accuracy, brier_score, negative_log_likelihood
from rankmixup.metrics.ranking import confidence_by_lambda, kendall_tau, violated_mixed_pairs, violated_raw_pairs
from rankmixup.metrics.selective import aurc, correctness_auroc, excess_aurc
from rankmixup.metrics.smooth import smooth_calibration_error

__all__ = ["accuracy", "adaptive_calibration_error", "aurc", "brier_score", "class_groups", "classwise_calibration_error"]
__all__ += ["confidence_by_lambda", "correctness_auroc", "debiased_calibration_error", "excess_aurc", "expected_calibration_error"]
__all__ += ["kendall_tau", "ks_calibration_error", "long_tail_metrics", "maximum_calibration_error", "negative_log_likelihood"]
__all__ += ["ood_detection", "ood_scores", "overconfidence_error", "smooth_calibration_error", "underconfidence_error"]
__all__ += ["violated_mixed_pairs", "violated_raw_pairs"]
