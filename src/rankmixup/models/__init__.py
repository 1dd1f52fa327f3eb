"""Networks by name, each with named stages behind which manifold mixup can mix."""

from rankmixup.models.mlp import MLP
from rankmixup.models.registry import MODELS, build_model, register
from rankmixup.models.resnet_small import SmallResNet

__all__ = ["MLP", "MODELS", "SmallResNet", "build_model", "register"]
