"""Test images as they are before a network sees them: as bytes, to be corrupted, and from there on its input again."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from rankmixup.data.base import DataSource, ImageFiles, Split
from rankmixup.data.splits import shrunk
from rankmixup.data.transforms import decoded, normalise
from rankmixup.data.view import View
from rankmixup.errors import require


@dataclass(frozen=True)
class Originals:
    """Images that are corrupted at the size in which they were taken, and shrunk afterwards where the data set is shrunk.

    Images of floats become bytes on the way: their lowest value is 0 and their highest 255.
    """

    split: Split
    shrink: int = 1
    low: float = 0.0
    high: float = 255.0

    @classmethod
    def of(cls, source: DataSource, root: Path | None) -> "Originals":
        """The test images of a data set."""
        shrink: int = getattr(source, "shrink", 1)  # a field of those that have it
        full = dataclasses.replace(source, shrink=1) if shrink > 1 else source  # type: ignore[call-arg]
        return cls.given(full.load(root).test, shrink)

    @classmethod
    def given(cls, split: Split, shrink: int = 1) -> "Originals":
        """Images of a split that is to be shrunk by this factor."""
        x = split.x
        if isinstance(x, ImageFiles):
            return cls(split, shrink)
        rule = "corruptions must be of images with 1 or 3 channels"
        require(isinstance(x, Tensor) and x.ndim == 4 and x.shape[1] in (1, 3), f"{rule}, got samples of another kind")
        assert isinstance(x, Tensor)
        return cls(split, shrink, float(x.min()), float(x.max())) if x.is_floating_point() else cls(split, shrink)

    @property
    def in_floats(self) -> bool:
        """Whether the images are floats."""
        return isinstance(self.split.x, Tensor) and self.split.x.is_floating_point()

    def bytes_at(self, where: Int[Tensor, " M"], view: View, workers: int | None = None) -> UInt8[Tensor, "M C H W"]:
        """Images as bytes; those in files `prepared` for the view."""
        if isinstance(self.split.x, ImageFiles):
            return torch.cat(list(decoded(self.split.x, view, where.split(256), workers)))
        x = self.split.x[where]
        assert isinstance(x, Tensor)
        return ((x - self.low) / max(self.high - self.low, 1e-12) * 255).round().to(torch.uint8) if self.in_floats else x.contiguous()

    def as_split(self, images: UInt8[Tensor, "M C H W"], where: Int[Tensor, " M"], view: View) -> Split:
        """What `bytes_at` gave, shrunk or as floats, with the labels; images in files as the network's input, since they are prepared."""
        split = Split(images, self.split.y[where], self.split.index[where])
        if isinstance(self.split.x, ImageFiles):
            return dataclasses.replace(split, x=normalise(images, view))
        if self.in_floats:
            return dataclasses.replace(split, x=images.float() / 255 * (self.high - self.low) + self.low)
        return shrunk(split, self.shrink)
