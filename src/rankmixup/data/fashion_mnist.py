"""Fashion-MNIST from IDX files."""

import gzip
import io
import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from jaxtyping import UInt8
from torch import Tensor

from rankmixup.data.base import Dataset, DataSource, View, register
from rankmixup.data.download import PUBLISHED, Remote, fetch, verify
from rankmixup.data.splits import published_splits
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

    image_size = 28
    url: ClassVar[str] = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
    files: ClassVar[dict[str, str]] = PUBLISHED["fashion-mnist"]
    """Names and md5 sums of the compressed files."""

    def download(self, root: Path) -> None:
        for name, md5 in self.files.items():
            if not (root / _FOLDER / name).is_file():
                fetch(Remote(f"{self.url}/{name}.gz", md5), root / _FOLDER)

    def read(self, root: Path) -> Dataset:
        arrays = [self._array(root / _FOLDER / name, md5) for name, md5 in self.files.items()]
        for images, labels, name in zip(arrays[::2], arrays[1::2], ("train", "t10k"), strict=True):
            valid = images.shape[1:] == (28, 28) and labels.shape == images.shape[:1] and bool((labels < 10).all())
            rule = f"fashion-mnist's {name} files must hold images of 28x28 pixels and a label in 0..9 for each"
            require(valid, f"{rule}, got shapes {list(images.shape)} and {list(labels.shape)}")
        train, test = ((arrays[part].unsqueeze(1), arrays[part + 1].long()) for part in (0, 2))
        view = View(28, (0.2860,), (0.3530,), augment="crop", flip=True)
        return Dataset(*published_splits(train, test, self.name), _NAMES, view, val_from_train=True)

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
