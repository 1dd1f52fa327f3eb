"""Networks of torchvision and timm, for any number of classes and channels, and the weights that these libraries have for them."""

import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rankmixup.errors import InvalidInput, WorkFailed, import_extra, require, unknown_name
from rankmixup.files import reason
from rankmixup.types import evaluating

LIBRARIES = ("torchvision", "timm")


@dataclass(frozen=True)
class Pretrained:
    """Weights that a library has for one of its networks, and the input that they were trained on."""

    tag: str
    """The library's name of them."""
    image_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


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
        with torch.no_grad(), evaluating(model):
            logits = model(torch.zeros(1, in_channels, image_size, image_size))
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
    timm = _check_timm(key)
    return timm.create_model(key, pretrained=False, num_classes=num_classes, in_chans=in_channels, img_size=image_size)


def find_pretrained(name: str, tag: str = "") -> Pretrained:
    """The weights `tag` of `torchvision/NAME` or `timm/NAME`, by default those that the library recommends; nothing is downloaded."""
    library, _, key = name.partition("/")
    if library not in LIBRARIES or not key:
        others = " or ".join(f"{each}/NAME" for each in LIBRARIES)
        raise InvalidInput(f"pretrained must go with a network that has weights, {others}, got model {name!r}; see weights and init_from")
    if library == "timm":
        timm = _check_timm(key)
        try:
            config = timm.get_pretrained_cfg(_tagged(key, tag))
        except RuntimeError as error:
            raise InvalidInput(f"weights of timm must have a tag that it knows, got {name!r} ({reason(error)})") from error
        require(
            config is not None and bool(config.has_weights), f"pretrained must go with a network that timm has weights for, got {name!r}"
        )
        return Pretrained(config.tag or "", config.input_size[-1], tuple(config.mean), tuple(config.std))
    weights = _torchvision_weights(key, tag)
    preset = weights.transforms()
    return Pretrained(weights.name, preset.crop_size[0], tuple(preset.mean), tuple(preset.std))


def pretrained_weights(name: str, tag: str, *, image_size: int, in_channels: int) -> dict[str, Tensor]:
    """The weights `tag` of a library by name, with the head that they were trained with, from its cache or its server."""
    library, _, key = name.partition("/")
    build = _pretrained_torchvision if library == "torchvision" else _pretrained_timm
    try:
        try:
            return build(key, tag, in_channels, image_size)
        except TypeError:  # as in library_model
            return build(key, tag, in_channels, None)
    except InvalidInput:
        raise
    except Exception as error:  # of a connection, a server, a damaged file: each library has its own
        raise WorkFailed(f"the weights {tag} of {name} could not be loaded ({reason(error)})") from error


def _pretrained_timm(key: str, tag: str, in_channels: int, image_size: int | None) -> dict[str, Tensor]:
    timm = _check_timm(key)
    return timm.create_model(_tagged(key, tag), pretrained=True, in_chans=in_channels, img_size=image_size).state_dict()


def _pretrained_torchvision(key: str, tag: str, in_channels: int, image_size: int | None) -> dict[str, Tensor]:
    from torchvision import models

    weights = _torchvision_weights(key, tag)
    held = weights.get_state_dict(progress=False, check_hash=True, weights_only=True)
    # As torchvision does: names of DenseNet's oldest files. Its modules translate those of their own that have changed.
    for name in [name for name in held if re.search(r"denselayer\d+\.(norm|conv)\.[12]\.", name)]:
        held[re.sub(r"(denselayer\d+\.(?:norm|conv))\.([12])\.", r"\1\2.", name)] = held.pop(name)
    model = models.get_model(key, weights=None, num_classes=len(weights.meta["categories"]))
    model.load_state_dict(held)
    return model.state_dict()


def _torchvision_weights(key: str, tag: str) -> Any:
    from torchvision import models

    _check_key("torchvision", key, models.list_models(module=models))
    known = models.get_model_weights(key)
    require(len(known) > 0, f"pretrained must go with a network that torchvision has weights for, got 'torchvision/{key}'")
    if tag and tag not in known.__members__:
        raise unknown_name(f"weights of torchvision/{key}", tag, known.__members__)
    return known[tag] if tag else known.DEFAULT


def _tagged(key: str, tag: str) -> str:
    """A network of timm with the tag of its weights, which its name may have already."""
    return f"{key}.{tag}" if tag and "." not in key else key


def _check_timm(key: str) -> Any:
    """The package timm, which must have this network; its name may be followed by the tag of its weights."""
    timm = import_extra("timm", f"model 'timm/{key}'", "timm")
    _check_key("timm", key.partition(".")[0], timm.list_models())
    return timm


def _check_key(library: str, key: str, valid: list[str]) -> None:
    if key not in valid:
        raise unknown_name(f"model of {library}", key, valid)
