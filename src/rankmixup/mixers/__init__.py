"""Mixers: mixup, CutMix, manifold mixup and logit mixup. They never throw lambda or the partner away."""

from rankmixup.mixers.base import InputMixer, Mixer, register
from rankmixup.mixers.cutmix import CutMix, cutmix, cutmix_boxes
from rankmixup.mixers.logit import LogitMixup
from rankmixup.mixers.manifold import ManifoldMixup, stage_names
from rankmixup.mixers.mixup import Mixup, mixup
from rankmixup.types import Mixed

__all__ = [
    "CutMix",
    "InputMixer",
    "LogitMixup",
    "ManifoldMixup",
    "Mixed",
    "Mixer",
    "Mixup",
    "cutmix",
    "cutmix_boxes",
    "mixup",
    "register",
    "stage_names",
]
