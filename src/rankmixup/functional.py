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
from rankmixup.methods.rankmixup_list import mixup_list_loss
from rankmixup.methods.regmixup import regmixup_loss
from rankmixup.methods.remix import remix_label_weight
from rankmixup.methods.unimix import prior_corrected_logits, unimix_lambda, unimix_partner
from rankmixup.metrics import functions
from rankmixup.metrics.functions import *  # noqa: F403
from rankmixup.mixers import cutmix, cutmix_boxes, mixup

__all__ = ["cpc_loss", "crl_loss", "cross_entropy_loss", "entropy_penalty_loss", "flsd_loss", "focal_loss", "label_mixture_loss"]
__all__ += [
    "label_smoothing_loss",
    "mbls_loss",
    "mixup_list_loss",
    "mixup_ranking_loss",
    "mmce_loss",
    "mndcg_loss",
    "prior_corrected_logits",
    "regmixup_loss",
]
__all__ += ["remix_label_weight", "unimix_lambda", "unimix_partner"]
__all__ += ["cutmix", "cutmix_boxes", "mixup", *functions.__all__]
