"""Networks of torchvision and timm, without their weights, for any number of classes and channels."""

from typing import Any

import torch
from torch import nn

from rankmixup.errors import InvalidInput, import_extra, require, unknown_name

LIBRARIES = ("torchvision", "timm")


def library_model(name: str, *, num_classes: int, image_size: int, in_channels: int) -> nn.Module:
    """The network `torchvision/NAME` or `timm/NAME`, which must be a classifier of images of this size."""
    library, _, key = name.partition("/")
    build = _torchvision if library == "torchvision" else _timm
    try:
        try:
            # Transformers are built for one size; networks that take no size raise a TypeError.
            model = build(key, num_classes, in_channels, image_size)
        except TypeError:
            model = build(key, num_classes, in_channels, None)
        was_training = model.training
        with torch.no_grad():
            logits = model.eval()(torch.zeros(1, in_channels, image_size, image_size))
        model.train(was_training)
    except InvalidInput:
        raise
    except (AssertionError, RuntimeError, TypeError, ValueError) as error:
        sizes, reason = f"images of {in_channels} x {image_size} x {image_size}", " ".join(str(error).split())
        raise InvalidInput(f"model {name!r} must be one that can classify {sizes}, which it cannot ({reason})") from error
    valid = isinstance(logits, torch.Tensor) and logits.shape == (1, num_classes)
    require(valid, f"model {name!r} must return one row of {num_classes} logits for each image, it does not")
    return model


def _torchvision(key: str, num_classes: int, in_channels: int, image_size: int | None) -> nn.Module:
    from torchvision import models

    _check_key("torchvision", key, models.list_models(module=models))
    sized = {} if image_size is None else {"image_size": image_size}
    model: nn.Module = models.get_model(key, weights=None, num_classes=num_classes, **sized)
    if in_channels == 3:
        return model
    # The same first convolution, for another number of channels.
    where, first = next((name, module) for name, module in model.named_modules() if isinstance(module, nn.Conv2d))
    settings: dict[str, Any] = {name: getattr(first, name) for name in ("kernel_size", "stride", "padding", "dilation", "padding_mode")}
    parent, _, child = where.rpartition(".")
    setattr(model.get_submodule(parent), child, nn.Conv2d(in_channels, first.out_channels, bias=first.bias is not None, **settings))
    return model


def _timm(key: str, num_classes: int, in_channels: int, image_size: int | None) -> nn.Module:
    timm = import_extra("timm", f"model 'timm/{key}'", "timm")
    _check_key("timm", key, timm.list_models())
    return timm.create_model(key, pretrained=False, num_classes=num_classes, in_chans=in_channels, img_size=image_size)


def _check_key(library: str, key: str, valid: list[str]) -> None:
    if key not in valid:
        raise unknown_name(f"model of {library}", key, valid)
