"""Training-time methods, one file each."""

from rankmixup.methods.base import LossMethod, Method, register
from rankmixup.methods.crl import CRL, CorrectnessHistory, crl_loss
from rankmixup.methods.cross_entropy import CrossEntropy, cross_entropy_loss
from rankmixup.methods.mixup import MixupTraining, label_mixture_loss
from rankmixup.methods.rankmixup import RankMixupMNDCG, RankMixupMRL, mixup_ranking_loss, mndcg_loss
from rankmixup.methods.regmixup import RegMixup, regmixup_loss
from rankmixup.methods.remix import Remix, remix_label_weight
from rankmixup.methods.step import Objective, TrainStep, objective
from rankmixup.methods.unimix import UniMix, prior_corrected_logits, unimix_lambda, unimix_partner

__all__ = [
    "CRL",
    "CorrectnessHistory",
    "CrossEntropy",
    "LossMethod",
    "Method",
    "MixupTraining",
    "Objective",
    "RankMixupMNDCG",
    "RankMixupMRL",
    "RegMixup",
    "Remix",
    "TrainStep",
    "UniMix",
    "crl_loss",
    "cross_entropy_loss",
    "label_mixture_loss",
    "mixup_ranking_loss",
    "mndcg_loss",
    "objective",
    "prior_corrected_logits",
    "register",
    "regmixup_loss",
    "remix_label_weight",
    "unimix_lambda",
    "unimix_partner",
]
