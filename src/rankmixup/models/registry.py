"""Networks by name."""

from collections.abc import Callable

from torch import nn

from rankmixup.errors import require
from rankmixup.registry import Registry

__all__ = ["MODELS", "build_model", "register"]

Factory = Callable[..., nn.Module]
"""Called with num_classes, image_size and in_channels, all by name."""

MODELS: Registry[Factory] = Registry("model", "rankmixup.models")
register = MODELS.register


def build_model(name: str, *, num_classes: int, image_size: int, in_channels: int = 3) -> nn.Module:
    """A freshly initialised network for square images.

    Weights are drawn from torch's global generator, as PyTorch's own layers do; `rankmixup.random.global_seed` seeds it.
    """
    for label, value in (("num_classes", num_classes), ("image_size", image_size), ("in_channels", in_channels)):
        require(value >= 1, f"{label} must be at least 1, got {value}")
    return MODELS[name](num_classes=num_classes, image_size=image_size, in_channels=in_channels)
