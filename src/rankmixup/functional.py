"""Every pure function of the library in one place: losses, mixing, metrics."""

from rankmixup.methods import (
    crl_loss,
    cross_entropy_loss,
    label_mixture_loss,
    mixup_ranking_loss,
    mndcg_loss,
    prior_corrected_logits,
    regmixup_loss,
    remix_label_weight,
    unimix_lambda,
    unimix_partner,
)
from rankmixup.mixers import cutmix, cutmix_boxes, mixup

__all__ = [
    "crl_loss",
    "cross_entropy_loss",
    "cutmix",
    "cutmix_boxes",
    "label_mixture_loss",
    "mixup",
    "mixup_ranking_loss",
    "mndcg_loss",
    "prior_corrected_logits",
    "regmixup_loss",
    "remix_label_weight",
    "unimix_lambda",
    "unimix_partner",
]
