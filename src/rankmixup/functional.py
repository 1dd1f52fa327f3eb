"""Every pure function of the library in one place: losses, mixing, metrics."""

from rankmixup.methods.cpc import cpc_loss
from rankmixup.methods.crl import crl_loss
from rankmixup.methods.cross_entropy import cross_entropy_loss
from rankmixup.methods.entropy_penalty import entropy_penalty_loss
from rankmixup.methods.focal import flsd_loss, focal_loss
from rankmixup.methods.label_smoothing import label_smoothing_loss
from rankmixup.methods.mbls import mbls_loss
from rankmixup.methods.mixup import label_mixture_loss
from rankmixup.methods.mmce import mmce_loss
from rankmixup.methods.rankmixup import mixup_ranking_loss, mndcg_loss
from rankmixup.methods.regmixup import regmixup_loss
from rankmixup.methods.remix import remix_label_weight
from rankmixup.methods.unimix import prior_corrected_logits, unimix_lambda, unimix_partner
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
from rankmixup.mixers import cutmix, cutmix_boxes, mixup

__all__ = ["cpc_loss", "crl_loss", "cross_entropy_loss", "entropy_penalty_loss", "flsd_loss", "focal_loss", "label_mixture_loss"]
__all__ += ["label_smoothing_loss", "mbls_loss", "mixup_ranking_loss", "mmce_loss", "mndcg_loss", "prior_corrected_logits", "regmixup_loss"]
__all__ += ["remix_label_weight", "unimix_lambda", "unimix_partner"]
__all__ += ["accuracy", "adaptive_calibration_error", "aurc", "brier_score", "class_groups", "classwise_calibration_error"]
__all__ += ["confidence_by_lambda", "correctness_auroc", "debiased_calibration_error", "excess_aurc", "expected_calibration_error"]
__all__ += ["kendall_tau", "ks_calibration_error", "long_tail_metrics", "maximum_calibration_error", "negative_log_likelihood"]
__all__ += ["ood_detection", "ood_scores", "overconfidence_error", "smooth_calibration_error", "underconfidence_error"]
__all__ += ["violated_mixed_pairs", "violated_raw_pairs"]
__all__ += ["cutmix", "cutmix_boxes", "mixup"]
