"""Networks by name, each with named stages after which manifold mixup can mix."""

from rankmixup.models.mlp import MLP
from rankmixup.models.registry import MODELS, build_model, leaves_variant_open, register, resolve_model
from rankmixup.models.resnet import ResNet
from rankmixup.models.resnet_small import SmallResNet

__all__ = ["MLP", "MODELS", "ResNet", "SmallResNet", "build_model", "leaves_variant_open", "register", "resolve_model"]
