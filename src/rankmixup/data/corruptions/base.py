"""What a corruption is: a function of images in [0, 1], its constants at five severities, and random numbers of each image."""

import math
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from rankmixup import random
from rankmixup.errors import InvalidInput, require, require_whole, shown, unknown_name
from rankmixup.ops import as_tensor
from rankmixup.registry import Registry

Group = Literal["noise", "blur", "weather", "digital"]
GROUPS: tuple[Group, ...] = ("noise", "blur", "weather", "digital")
SEVERITIES = (1, 2, 3, 4, 5)
VERSION = 1
"""Of the generated images: raised where they change, so that stored predictions of older ones are not taken for theirs."""
CONSTANTS: dict[str, dict[str, list[Any]]] = tomllib.loads((Path(__file__).parent / "severities.toml").read_text(encoding="utf-8"))
"""By corruption and size of the images, one entry for each severity."""
_PIXELS = 1 << 18
"""Most pixels that are corrupted at once: few enough to stay in the cache of a processor."""
_SLACK = {torch.float32: 1e-4, torch.float64: 1e-9}
"""Of a grey level: sums may fall short of a whole number by rounding, which truncation must not lower."""


class Draws:
    """Random numbers of each image, from a stream of its own, so that they do not depend on the other images of a batch."""

    def __init__(self, seed: int, names: tuple[str | int, ...], index: Int[Tensor, " N"]):
        self._streams = [random.stream(seed, "corruption", *names, each) for each in index.tolist()]

    def each(self, draw: Callable[[torch.Generator], Tensor]) -> Tensor:
        """What `draw` gives for every image, along a new first dimension."""
        return torch.stack([draw(rng) for rng in self._streams])

    def normal(self, *shape: int) -> Float[Tensor, "N ..."]:
        """Standard normal numbers."""
        return self.each(lambda rng: torch.randn(shape, generator=rng))

    def uniform(self, *shape: int) -> Float[Tensor, "N ..."]:
        """Uniform numbers in [0, 1)."""
        return self.each(lambda rng: torch.rand(shape, generator=rng))

    def poisson(self, rates: Float[Tensor, "N ..."]) -> Float[Tensor, "N ..."]:
        """Poisson counts of these rates."""
        pairs = zip(rates.cpu(), self._streams, strict=True)
        return torch.stack([torch.poisson(rate, generator=rng) for rate, rng in pairs])


Function = Callable[[Tensor, Any, Draws], Tensor]
F = TypeVar("F", bound=Function)


@dataclass(frozen=True)
class Corruption:
    """One published type of corruption; calling it corrupts images."""

    name: str
    group: Group
    function: Function
    colour: bool = False
    """Whether it changes nothing but colours, so that grey images have no such corruption."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "__doc__", self.function.__doc__)  # what `rankmixup list corruptions` shows

    def constants(self, size: int, severity: int) -> Any:
        """The published constants for images of `size` pixels, or of the nearest published size."""
        return CONSTANTS[self.name][str(published_size(size))][severity - 1]

    def __call__(
        self, images: UInt8[Tensor, "N C H W"], severity: int, *, index: Int[Tensor, " N"] | None = None, seed: int = 0
    ) -> UInt8[Tensor, "N C H W"]:
        """The corrupted images.

        Args:
            images: Bytes with one or three channels.
            severity: 1 to 5.
            index: Position of each image in its data set: what is drawn for it depends on that, the severity and the seed alone.
            seed: Seed of everything that is drawn.
        """
        check_severity(severity)
        rule = "images must be bytes [N, C, H, W] with 1 or 3 channels and at least 4x4 pixels"
        valid = isinstance(images, Tensor) and images.ndim == 4 and images.dtype == torch.uint8 and images.shape[1] in (1, 3)
        require(valid and min(images.shape[2:]) >= 4, f"{rule}, got {getattr(images, 'dtype', '')} {shown(images)}")
        require(images.shape[1] == 3 or not self.colour, f"images must have 3 channels for {self.name}, got 1")
        index = torch.arange(len(images)) if index is None else as_tensor("index", index)
        whole = index.ndim == 1 and not index.is_floating_point() and not index.is_complex() and index.dtype != torch.bool
        require(whole, f"index must hold one whole number for each image, got {index.dtype} {list(index.shape)}")
        require(len(index) == len(images), f"index must have one position for each of {len(images)} images, got {len(index)}")
        if len(images) == 0:
            return images.clone()
        constants = self.constants(min(images.shape[2:]), severity)
        together = max(1, _PIXELS // math.prod(images.shape[2:]))
        done = [torch.empty_like(images[:0])]
        for part, where in zip(images.split(together), index.split(together), strict=True):
            found = self.function(part.float().contiguous() / 255, constants, Draws(seed, (self.name, severity), where))
            done.append(to_bytes(found).to(images.device))
        return torch.cat(done)


CORRUPTIONS: Registry[Corruption] = Registry("corruption")
"""By their published names, which are those of the published files."""


def corruption(group: Group, *, colour: bool = False) -> Callable[[F], F]:
    """Register a function of images in [0, 1], constants and draws as the corruption of its name; what it returns is clipped."""

    def decorate(function: F) -> F:
        CORRUPTIONS.register(function.__name__)(Corruption(function.__name__, group, function, colour))
        return function

    return decorate


def to_bytes(x: Float[Tensor, "..."]) -> UInt8[Tensor, "..."]:
    """Clipped and truncated, as in the published files.

    >>> to_bytes(torch.tensor([-0.1, 0.5, 1.2, 3 / 255]))
    tensor([  0, 127, 255,   3], dtype=torch.uint8)
    """
    return (x.clamp(0, 1) * 255 + _SLACK[x.dtype]).to(torch.uint8)


def published_size(size: int) -> int:
    """The published size of images that is nearest to `size`, as a ratio.

    >>> [published_size(size) for size in (8, 28, 32, 48, 96, 128, 299)]
    [32, 32, 32, 64, 64, 224, 224]
    """
    return min((32, 64, 224), key=lambda known: (abs(math.log(size / known)), -known))


def check_severity(severity: int) -> None:
    """Refuse what is no severity."""
    require_whole("severity", severity, least=1, most=5)


def corrupt(
    images: UInt8[Tensor, "N C H W"], name: str, severity: int, *, index: Int[Tensor, " N"] | None = None, seed: int = 0
) -> UInt8[Tensor, "N C H W"]:
    """Images with a published corruption: see `Corruption`.

    >>> grey = torch.full((2, 3, 32, 32), 100, dtype=torch.uint8)
    >>> corrupt(grey, "brightness", 5)[0, 0, 0, 0]  # 100 / 255 + 0.3
    tensor(176, dtype=torch.uint8)
    """
    return CORRUPTIONS[name](images, severity, index=index, seed=seed)


def chosen_corruptions(names: Sequence[str] = ("all",), *, known: Iterable[str] | None = None) -> tuple[str, ...]:
    """Names of corruptions, from names, groups and "all"; in the order of the groups, each once.

    `known` are the ones to choose from, by default all that can be generated.

    >>> chosen_corruptions(["weather", "speckle_noise", "speckle_noise"])
    ('speckle_noise', 'brightness', 'contrast', 'fog')
    """
    require(not isinstance(names, str) and len(names) > 0, f"corruptions must be a list of names or groups, or ['all'], got {shown(names)}")
    every = sorted(CORRUPTIONS if known is None else known, key=lambda name: (GROUPS.index(group_of(name)), name))
    found: set[str] = set()
    for name in names:
        members = [each for each in every if name in ("all", group_of(each), each)]
        if not members and name in (*GROUPS, *published_names()):  # it exists, but not here
            rule = "corruptions must be some that can be generated" if known is None else "corruptions must be some of the published files"
            raise InvalidInput(f"{rule} ({', '.join(every)}), got {name!r}")
        if not members:
            raise unknown_name("corruption", name, ["all", *GROUPS, *every])
        found.update(members)
    return tuple(each for each in every if each in found)


_OTHERS: dict[str, Group] = {"snow": "weather", "frost": "weather", "spatter": "weather"}
"""Published types that are read from files but not generated: they need pictures, or routines of OpenCV."""


def group_of(name: str) -> Group:
    """The group of a published corruption."""
    return CORRUPTIONS[name].group if name in CORRUPTIONS else _OTHERS[name]


def published_names() -> list[str]:
    """All published types, also those that are not generated."""
    return sorted([*CORRUPTIONS, *_OTHERS])
