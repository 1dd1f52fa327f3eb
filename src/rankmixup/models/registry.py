"""Networks by name: those of this library with their variants, and every classifier of torchvision and timm."""

from collections.abc import Callable

from torch import nn

from rankmixup.errors import require, require_whole, shown, unknown_name
from rankmixup.models.libraries import LIBRARIES, library_model
from rankmixup.models.own import check_own_name, is_own
from rankmixup.registry import Entry, Registry

Factory = Callable[..., nn.Module]
"""Called with num_classes, image_size and in_channels, and with variant if it has several, all by name."""

MODELS: Registry[Factory] = Registry("model", "rankmixup.models")
_variants: dict[str, tuple[str, ...]] = {}
_LARGEST_IMAGE = {"cifar": 32, "tiny": 64}
"""Largest images of each variant; above them it is imagenet."""


def register(name: str, *variants: str) -> Callable[[Entry], Entry]:
    """Decorator that registers a network under `name`, with those of the variants cifar, tiny and imagenet that it has."""

    def decorate(entry: Entry) -> Entry:
        MODELS.register(name)(entry)
        _variants[name] = variants
        return entry

    return decorate


def leaves_variant_open(name: str) -> bool:
    """Whether `name` has variants but names none, so that the size of the images decides; an unknown name is refused."""
    stem, variant = _parts(name)
    return not variant and bool(_variants.get(stem))


def resolve_model(name: str, image_size: int) -> str:
    """The name with its variant, where it has one: cifar up to 32 pixels, tiny up to 64, imagenet above.

    >>> resolve_model("resnet50", 64), resolve_model("resnet50:cifar", 64), resolve_model("resnet8", 64)
    ('resnet50:tiny', 'resnet50:cifar', 'resnet8')
    """
    if not leaves_variant_open(name):
        return name
    variant = next((variant for variant, largest in _LARGEST_IMAGE.items() if image_size <= largest), "imagenet")
    variants = _variants[name]
    require(variant in variants, f"{name} must be given images it has a variant for ({', '.join(variants)}), got {image_size} pixels")
    return f"{name}:{variant}"


def build_model(name: str, *, num_classes: int, image_size: int, in_channels: int = 3) -> nn.Module:
    """A freshly initialised network.

    Args:
        name: a name that `rankmixup list models` shows, `torchvision/NAME` or `timm/NAME`.
        num_classes: number of logits.
        image_size: height and width of the images; 1 for a table.
        in_channels: number of colour channels, or of columns of a table.

    Returns:
        The network. Its weights are drawn from torch's global generator; `rankmixup.random.global_seed` seeds it.
    """
    sizes = {"num_classes": num_classes, "image_size": image_size, "in_channels": in_channels}
    for label, value in sizes.items():
        require_whole(label, value, least=1, most=2**31 - 1)
    stem, variant = _parts(resolve_model(name, image_size))
    again = "give it again, rm.train(run, model=module) or rm.load(path, model=module)"
    require(not is_own(stem), f"model {name!r} must be given as a module, since it is one of your own: {again}")
    if "/" in stem:
        model = library_model(stem, **sizes)
    else:
        model = MODELS[stem](**sizes, variant=variant) if variant else MODELS[stem](**sizes)
    convolutional = image_size == 1 and any(isinstance(layer, nn.Conv2d) and max(layer.kernel_size) > 1 for layer in model.modules())
    require(not convolutional, f"model must be one without convolutions, such as 'mlp', for a table (inputs of 1x1 pixel), got {name!r}")
    return model


def _parts(name: str) -> tuple[str, str]:
    """Name and variant, which may be empty. Names of networks of torchvision and timm are checked when they are built."""
    require(isinstance(name, str), f"model must be a name, got {shown(name)}")
    if name.startswith(tuple(f"{library}/" for library in LIBRARIES)):
        return name, ""
    if is_own(name):
        check_own_name(name)
        return name, ""
    stem, separator, variant = name.partition(":")
    MODELS[stem]  # an unknown name is refused
    variants = _variants.get(stem, ())
    require(not separator or bool(variants), f"model {stem!r} must be named without a variant, it has none, got {variant!r}")
    if separator and variant not in variants:
        raise unknown_name(f"variant of {stem}", variant, variants)
    return stem, variant
