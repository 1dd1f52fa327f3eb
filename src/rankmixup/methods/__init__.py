"""Training-time methods, one file each."""

from rankmixup.methods.base import LossMethod, Method, register
from rankmixup.methods.cross_entropy import CrossEntropy, cross_entropy_loss
from rankmixup.methods.mixup import MixupTraining, label_mixture_loss
from rankmixup.methods.step import Objective, TrainStep, objective
from rankmixup.methods.rankmixup import RankMixupMNDCG, RankMixupMRL, mixup_ranking_loss, mndcg_loss

__all__ = [
    "CrossEntropy",
    "LossMethod",
    "Method",
    "MixupTraining",
    "Objective",
    "RankMixupMNDCG",
    "RankMixupMRL",
    "TrainStep",
    "cross_entropy_loss",
    "label_mixture_loss",
    "mixup_ranking_loss",
    "mndcg_loss",
    "objective",
    "register",
]
