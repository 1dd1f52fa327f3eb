"""Every pure function of the library in one place: losses, mixing, metrics."""

from rankmixup.methods import (
    cpc_loss,
    crl_loss,
    cross_entropy_loss,
    entropy_penalty_loss,
    flsd_loss,
    focal_loss,
    label_mixture_loss,
    label_smoothing_loss,
    mbls_loss,
    mixup_ranking_loss,
    mmce_loss,
    mndcg_loss,
    prior_corrected_logits,
    regmixup_loss,
    remix_label_weight,
    unimix_lambda,
    unimix_partner,
)
from rankmixup.metrics import (
    accuracy,
    adaptive_calibration_error,
    aurc,
    brier_score,
    class_groups,
    classwise_calibration_error,
    confidence_by_lambda,
    correctness_auroc,
    debiased_calibration_error,
    excess_aurc,
    expected_calibration_error,
    kendall_tau,
    ks_calibration_error,
    long_tail_metrics,
    maximum_calibration_error,
    negative_log_likelihood,
    ood_detection,
    ood_scores,
    overconfidence_error,
    smooth_calibration_error,
    underconfidence_error,
    violated_mixed_pairs,
    violated_raw_pairs,
)
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
