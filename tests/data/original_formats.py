"""Writers of data sets in the formats in which their authors publish them, a few images each."""

import gzip
import hashlib
import io
import pickle
import struct
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


class _Python2Pickler(pickle._Pickler):
    """Protocol 2 with byte strings as Python 2 wrote them, and numpy's functions under the names that they had."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)

    def save_bytes(self, value: bytes) -> None:
        self.write(pickle.BINSTRING + struct.pack("<i", len(value)) + value)
        self.memoize(value)

    def save_global(self, value: Any, name: str | None = None) -> None:
        module = value.__module__.replace("numpy._core", "numpy.core")
        self.write(f"c{module}\n{value.__qualname__}\n".encode())
        self.memoize(value)

    def save_str(self, value: str) -> None:
        self.save_bytes(value.encode("latin1"))

    dispatch[bytes] = save_bytes
    dispatch[str] = save_str
    dispatch[type] = save_global
    dispatch[type(len)] = save_global


def python2_pickle(content: Any) -> bytes:
    """What Python 2's cPickle made of it."""
    buffer = io.BytesIO()
    _Python2Pickler(buffer, protocol=2).dump(content)
    return buffer.getvalue()


def write_cifar_batch(path: Path, images: np.ndarray, labels: list[int], key: bytes = b"labels") -> None:
    """`images` are [N, 3, 32, 32]."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(python2_pickle({b"batch_label": b"a batch", key: labels, b"data": images.reshape(-1, 3072), b"filenames": []}))


def write_idx(path: Path, array: np.ndarray) -> None:
    """A gzipped IDX file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(gzip.compress(head + array.tobytes()))


def write_image(path: Path, pixels: np.ndarray, **options: Any) -> None:
    """An image file of the kind that the suffix says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = "JPEG" if path.suffix.lower() in (".jpeg", ".jpg") else None
    Image.fromarray(pixels).save(path, format=kind, **options)


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    """Random bytes."""
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
