"""Training-time methods, one file each."""

from rankmixup.methods.base import LossMethod, Method, register
from rankmixup.methods.cpc import CPC, cpc_loss
from rankmixup.methods.crl import CRL, CorrectnessHistory, crl_loss
from rankmixup.methods.cross_entropy import CrossEntropy, cross_entropy_loss
from rankmixup.methods.dials import Auto, Dial
from rankmixup.methods.entropy_penalty import EntropyPenalty, entropy_penalty_loss
from rankmixup.methods.focal import FLSD, Focal, flsd_loss, focal_loss
from rankmixup.methods.label_smoothing import LabelSmoothing, label_smoothing_loss
from rankmixup.methods.mbls import MbLS, mbls_loss
from rankmixup.methods.mixup import MixupTraining, label_mixture_loss
from rankmixup.methods.mmce import MMCE, mmce_loss
from rankmixup.methods.rankmixup import RankMixupMNDCG, RankMixupMRL, mixup_ranking_loss, mndcg_loss
from rankmixup.methods.rankmixup_auto import RankMixupAuto
from rankmixup.methods.rankmixup_list import RankMixupList, mixup_list_loss
from rankmixup.methods.regmixup import RegMixup, regmixup_loss
from rankmixup.methods.remix import Remix, remix_label_weight
from rankmixup.methods.step import Objective, TrainStep, objective
from rankmixup.methods.unimix import UniMix, prior_corrected_logits, unimix_lambda, unimix_partner

__all__ = ["CPC", "CRL", "FLSD", "MMCE", "Auto", "CorrectnessHistory", "CrossEntropy", "Dial", "EntropyPenalty", "Focal", "LabelSmoothing"]
__all__ += [
    "LossMethod",
    "MbLS",
    "Method",
    "MixupTraining",
    "Objective",
    "RankMixupAuto",
    "RankMixupList",
    "RankMixupMNDCG",
    "RankMixupMRL",
    "RegMixup",
    "Remix",
    "TrainStep",
    "UniMix",
]
__all__ += ["cpc_loss", "crl_loss", "cross_entropy_loss", "entropy_penalty_loss", "flsd_loss", "focal_loss", "label_mixture_loss"]
__all__ += [
    "label_smoothing_loss",
    "mbls_loss",
    "mixup_list_loss",
    "mixup_ranking_loss",
    "mmce_loss",
    "mndcg_loss",
    "objective",
    "prior_corrected_logits",
]
__all__ += ["register", "regmixup_loss", "remix_label_weight", "unimix_lambda", "unimix_partner"]
