"""Fashion-MNIST from IDX files."""

import gzip
import io
import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import torch
from jaxtyping import UInt8
from torch import Tensor

from rankmixup.config import added_field
from rankmixup.data.base import Dataset, DataSource, register
from rankmixup.data.download import PUBLISHED, Remote, fetch, verify
from rankmixup.data.splits import fewer, published_splits, shrunk
from rankmixup.data.view import View
from rankmixup.errors import require
from rankmixup.files import readable, require_fits

_NAMES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
_FOLDER = Path("FashionMNIST", "raw")


@register("fashion-mnist")
@dataclass(frozen=True)
class FashionMnist(DataSource):
    """Fashion-MNIST: 70,000 grey images of 28x28 pixels in 10 classes, 54,000 / 6,000 / 10,000.

    The files are read compressed, as published, or unpacked, from `FashionMNIST/raw`.
    """

    train_size: int = added_field(0)
    """Training images, the same number of each class and always the same images; 0 uses all."""
    val_size: int = added_field(0)
    """Validation images, likewise."""
    shrink: Literal[1, 2] = added_field(1)
    """Side of the squares of pixels that are averaged into one: 2 leaves 14x14 pixels."""
    augment: Literal["none", "crop-and-flip"] = added_field("crop-and-flip")
    """Augmentation in training: none, or random crops and mirror images."""

    url: ClassVar[str] = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
    files: ClassVar[dict[str, str]] = PUBLISHED["fashion-mnist"]
    """Names and md5 sums of the compressed files."""

    def check(self) -> None:
        super().check()
        for name in ("train_size", "val_size"):
            require(getattr(self, name) >= 0, f"{name} must be at least 0, got {getattr(self, name)}")

    @property
    def image_size(self) -> int:
        return 28 // self.shrink

    @classmethod
    def location(cls, root: Path) -> Path:
        return root / _FOLDER

    def download(self, root: Path) -> None:
        for name, md5 in self.files.items():
            if not (self.location(root) / name).is_file():
                fetch(Remote(f"{self.url}/{name}.gz", md5), self.location(root))

    def read(self, root: Path) -> Dataset:
        arrays = [self._array(self.location(root) / name, md5) for name, md5 in self.files.items()]
        for images, labels, name in zip(arrays[::2], arrays[1::2], ("train", "t10k"), strict=True):
            valid = images.shape[1:] == (28, 28) and labels.shape == images.shape[:1] and bool((labels < 10).all())
            rule = f"fashion-mnist's {name} files must hold images of 28x28 pixels and a label in 0..9 for each"
            require(valid, f"{rule}, got shapes {list(images.shape)} and {list(labels.shape)}")
        train, test = ((arrays[part].unsqueeze(1), arrays[part + 1].long()) for part in (0, 2))
        splits = published_splits(train, test, self.name)
        sizes = {"train_size": self.train_size, "val_size": self.val_size, "all": 0}
        fewer_images = (fewer(split, size, f"{self.name} {name}", 10) for split, (name, size) in zip(splits, sizes.items(), strict=True))
        train_split, val_split, test_split = (shrunk(split, self.shrink) for split in fewer_images)
        augmented = self.augment != "none"
        padding, crop = 4 // self.shrink, "crop" if augmented else "none"
        view = View(self.image_size, (0.2860,), (0.3530,), augment=crop, padding=padding, flip=augmented)  # type: ignore[arg-type]
        return Dataset(train_split, val_split, test_split, _NAMES, view, val_from_train=True)

    def _array(self, path: Path, md5: str) -> UInt8[Tensor, "..."]:
        if path.is_file():
            with path.open("rb") as file:
                return _read_idx(path, file)
        packed = path.with_name(f"{path.name}.gz")
        verify(packed, md5, self.name)
        with readable(packed, "a whole gzip file", (OSError, EOFError, zlib.error)), gzip.open(packed) as file:
            return _read_idx(packed, file)


def _read_idx(path: Path, file: io.BufferedIOBase) -> UInt8[Tensor, "..."]:
    """Two zero bytes, 8 for bytes, the number of axes, four bytes big-endian for each length, then the bytes."""
    head = file.read(4)
    require(head in (b"\0\0\x08\x01", b"\0\0\x08\x03"), f"{path} must be an IDX file of bytes with 1 or 3 axes, it begins with {head!r}")
    lengths = file.read(4 * head[3])
    require(len(lengths) == 4 * head[3], f"{path} must be a whole IDX file, it ends within its header")
    shape = struct.unpack(f">{head[3]}I", lengths)
    size = math.prod(shape)
    require_fits(path, size)
    # One byte more than the header says, to see whether there is any.
    content = bytearray(file.read(size + 1))
    held = len(content) if len(content) <= size else "more"
    require(len(content) == size > 0, f"{path} must hold {size} bytes of shape {list(shape)}, at least one, it holds {held}")
    return torch.frombuffer(content, dtype=torch.uint8).reshape(shape)
