"""Networks by name, each with named stages after which manifold mixup can mix."""

from rankmixup.models.libraries import Pretrained, find_pretrained, pretrained_weights
from rankmixup.models.mlp import MLP
from rankmixup.models.registry import MODELS, build_model, leaves_variant_open, register, resolve_model
from rankmixup.models.resnet import ResNet
from rankmixup.models.resnet_small import SmallResNet
from rankmixup.models.weights import check_weights_file, freeze_body, head_names, in_head, load_weights, read_weights, train_head

__all__ = ["MLP", "MODELS", "Pretrained", "ResNet", "SmallResNet", "build_model", "check_weights_file", "find_pretrained", "freeze_body"]
__all__ += ["head_names", "in_head", "leaves_variant_open", "load_weights", "pretrained_weights", "read_weights", "register"]
__all__ += ["resolve_model", "train_head"]
