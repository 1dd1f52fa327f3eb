"""Every pure function of the library in one place: losses, mixing, metrics."""

from rankmixup.methods import cross_entropy_loss, label_mixture_loss, mixup_ranking_loss, mndcg_loss
from rankmixup.mixers import cutmix, cutmix_boxes, mixup

__all__ = [
    "cross_entropy_loss",
    "cutmix",
    "cutmix_boxes",
    "label_mixture_loss",
    "mixup",
    "mixup_ranking_loss",
    "mndcg_loss",
]
