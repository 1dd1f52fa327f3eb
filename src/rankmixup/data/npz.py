"""Arrays of a user's own in an npz file."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, UInt8
from numpy.typing import NDArray
from torch import Tensor

from rankmixup.data.base import Dataset, Split, View, register
from rankmixup.data.own import OwnData, split_up
from rankmixup.errors import require
from rankmixup.files import read_npz

__all__ = ["Npz"]

_SPLITS = ("train", "val", "test")
_CHANNELS = (1, 3)


@register("npz")
@dataclass(frozen=True)
class Npz(OwnData):
    """Arrays of your own, npz:PATH: bytes `x` and labels `y`, or `x_train`, `y_train` and the same for val and test.

    Images are [N, H, W], [N, H, W, C] or [N, C, H, W], square, of 1 or 3 channels; labels are 0 to K - 1, each of them
    that of a training image. Validation and test samples that are not given are taken from the training samples: a tenth and a
    fifth of each class. Images are normalised with the mean and standard deviation of the training samples.
    """

    def probe(self, path: Path) -> tuple[str, int]:
        images = next(iter(_images(path).values()))
        return _sha256(path), images.shape[-1]

    def read(self, root: Path) -> Dataset:
        path = Path(self.path)
        images = _images(path)
        self.require_unchanged(_sha256(path))
        x = torch.cat(list(images.values()))
        y = torch.cat([_labels(path, name, len(part), len(x)) for name, part in images.items()])
        require(self.image_size == x.shape[-1], f"image_size must be that of {path}'s images, {x.shape[-1]}, got {self.image_size}")
        parts = torch.arange(len(y)).split([len(part) for part in images.values()])
        given = {_split(name): part for name, part in zip(images, parts, strict=True)}
        counts = torch.bincount(y[given["train"]], minlength=int(y.max()) + 1)
        missing = (counts == 0).nonzero().flatten().tolist() or [1]
        named = ", ".join(map(str, missing[:5])) + (f" (and {len(missing) - 5} more)" if len(missing) > 5 else "")
        require(len(counts) >= 2 and bool((counts > 0).all()), f"{path} must have training labels 0 to K - 1 without gaps, none is {named}")

        names = tuple(str(label) for label in range(len(counts)))
        train, val, test = split_up(x, y, given, names)
        view = View(self.image_size, *_moments(x[train.index]), augment="none" if self.augment == "none" else "crop", flip=self.flips)
        return Dataset(train, val, test, names, view, val_from_train="val" not in given)

    def outside(self, root: Path | None = None) -> tuple[Split, tuple[str, ...]]:
        images = _images(Path(self.path))
        x = images.get("x_test", torch.cat(list(images.values())))
        return Split(x, torch.zeros(len(x), dtype=torch.long), torch.arange(len(x))), ()


def _images(path: Path) -> dict[str, UInt8[Tensor, "N C S S"]]:
    """Images by the name of their array: `x` alone, or `x_train` with or without the others."""
    arrays = read_npz(path, optional=("x", *(f"x_{split}" for split in _SPLITS)))
    images = {name: _channels_first(path, name, array) for name, array in arrays.items()}
    require(
        list(images) == ["x"] or ("x_train" in images and "x" not in images),
        f"{path} must hold images 'x', or 'x_train' and optionally 'x_val' and 'x_test', got {', '.join(images) or 'none of them'}",
    )
    shapes = {tuple(each.shape[1:]) for each in images.values()}
    require(len(shapes) == 1, f"{path} must hold images of one size, got {sorted(shapes)}")
    return images


def _channels_first(path: Path, name: str, array: NDArray[Any]) -> UInt8[Tensor, "N C S S"]:
    require(array.dtype == np.uint8, f"{name!r} of {path} must hold bytes (uint8, 0 to 255), got {array.dtype}")
    require(
        array.ndim in (3, 4) and len(array) > 0,
        f"{name!r} of {path} must be [N, H, W], [N, H, W, C] or [N, C, H, W], got shape {list(array.shape)}",
    )
    x = torch.from_numpy(array)
    if x.ndim == 3:
        x = x.unsqueeze(1)
    elif x.shape[-1] in _CHANNELS:
        x = x.permute(0, 3, 1, 2)
    require(
        x.shape[1] in _CHANNELS and x.shape[2] == x.shape[3],
        f"{name!r} of {path} must hold square images of 1 or 3 channels, got shape {list(array.shape)}",
    )
    return x


def _labels(path: Path, images: str, size: int, total: int) -> Int[Tensor, " N"]:
    """Labels of `size` images out of `total`; a class has at least one image, so that there are no more classes than images."""
    name = f"y{images[1:]}"
    y = read_npz(path, name)[name]
    require(
        y.shape == (size,) and y.dtype.kind in "iu" and bool((y >= 0).all()),
        f"{name!r} of {path} must hold a label of at least 0 for each of {size} images, got {y.dtype} of shape {list(y.shape)}",
    )
    require(int(y.max()) < total, f"{name!r} of {path} must hold labels below the number of images, {total}, got {y.max()}")
    return torch.from_numpy(y.astype(np.int64))


def _split(images: str) -> str:
    return "train" if images == "x" else images.removeprefix("x_")


def _moments(x: UInt8[Tensor, "N C S S"]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, of values in 0..1."""
    # From counts of the 256 values: no copy in floats, and exact.
    counts = torch.stack([torch.bincount(channel.flatten(), minlength=256) for channel in x.unbind(1)]).double()
    weights, values = counts / counts.sum(1, keepdim=True), torch.arange(256).double() / 255
    mean = weights @ values
    std = (weights * (values - mean.unsqueeze(1)).square()).sum(1).sqrt()
    # Images of one colour have nothing to scale.
    std = torch.where(std > 0, std, 1.0)
    return tuple(mean.tolist()), tuple(std.tolist())


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
