"""Data sets of a user's own, folder:PATH and npz:PATH: identified by their content, not by their path."""

import warnings
from abc import abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Int, UInt8
from numpy.typing import NDArray
from torch import Tensor

from rankmixup.data.base import Dataset, DataSource, ImageFiles, Images, Split, View, register
from rankmixup.data.cache import fingerprint_of, undecodable
from rankmixup.data.imagenet import MEAN, STD
from rankmixup.data.images import SMALL, check_class_names, decode_all, first_size, list_classes, list_images
from rankmixup.data.splits import complete_splits
from rankmixup.errors import listed, one_line, require
from rankmixup.files import file_hash, read_npz

_SPLITS = ("train", "val", "test")
_CHANNELS = (1, 3)

Moments = tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and standard deviation of each channel, of values in 0..1."""


@dataclass(frozen=True)
class OwnData(DataSource):
    """Data of the user's own, at a path.

    `fingerprint` and `image_size` are taken from the data where they are not given; once they are, nothing is read before
    `load`, which then requires the same content. The path takes no part in comparisons nor in the id of a run.
    """

    path: str = field(default="", compare=False)
    """Folder or file."""
    fingerprint: str = ""
    """Hash of the content."""
    image_size: int = 0
    """Height and width of a network's input; 0 takes it from the images."""
    augment: Literal["none", "crop", "crop-and-flip"] = "crop-and-flip"
    """Augmentation in training: none, random crops, or these and mirror images, if a mirrored image has the same class."""

    def check(self) -> None:
        super().check()
        require(self.path != "", f"{self.name} must be followed by a path, as in {self.name}:PATH, got nothing")
        require(self.image_size >= 0, f"image_size must be at least 0, got {self.image_size}")
        if self.fingerprint and self.image_size:
            return
        object.__setattr__(self, "path", str(Path(self.path).expanduser().resolve()))
        fingerprint, image_size = self.probe(Path(self.path))
        object.__setattr__(self, "fingerprint", self.fingerprint or fingerprint)
        object.__setattr__(self, "image_size", self.image_size or image_size)

    @abstractmethod
    def probe(self, path: Path) -> tuple[str, int]:
        """Hash of the content of `path`, and the size of its images."""

    def check_unchanged(self, found: str) -> None:
        """Raise unless `found` is the hash of the content that this object was made for."""
        made_for, found = self.fingerprint[:12], found[:12]
        require(found == made_for, f"{self.path} must be unchanged since the run was made, fingerprint {made_for}, got {found}")

    def dataset(
        self, images: Images, y: Tensor, given: dict[str, Tensor], class_names: tuple[str, ...], constants: Moments | None
    ) -> Dataset:
        """The data set out of the positions of samples in each split; `constants` are by default those of the training images."""
        counts = torch.bincount(y[given["train"]], minlength=len(class_names))
        missing = [repr(class_names[label]) for label in (counts == 0).nonzero().flatten().tolist()]
        require(not missing, f"{self.path} must have a training image of each class, it has none of {listed(missing, 5)}")
        train, val, test = complete_splits(images, y, given, class_names)
        crop: Literal["crop", "resized-crop"] = "resized-crop" if isinstance(images, ImageFiles) else "crop"
        mean, std = constants or _moments(train.x)
        view = View(self.image_size, mean, std, "none" if self.augment == "none" else crop, flip=self.augment == "crop-and-flip")
        return Dataset(train, val, test, class_names, view, val_from_train="val" not in given)


@register("folder")
@dataclass(frozen=True)
class Folder(OwnData):
    """Images of your own, folder:PATH: `train`, optionally `val` and `test`, or all in one, with a folder for each class.

    Validation and test images that are not given are taken from the training images: a tenth and a fifth of each class. The
    size of the input is the shorter side of the first image if that is at most 64 pixels, and else 224. Images of up to 64
    pixels are cropped to a square, resized and held in memory; larger ones are decoded when they are needed. All become RGB:
    grey is repeated, transparent pixels are drawn over black, 16 bits are scaled to 8; they are normalised with ImageNet's
    constants.
    """

    on_bad_image: Literal["refuse", "skip"] = "refuse"
    """Whether images that do not decode stop the run or are left out; either way they are named and counted."""

    def probe(self, path: Path) -> tuple[str, int]:
        files = list_images(path)
        shorter = self.image_size or first_size(files)
        return fingerprint_of(files), shorter if shorter <= SMALL else self.image_size or 224

    def read(self, root: Path) -> Dataset:
        folder = Path(self.path)
        self.check_unchanged(fingerprint_of(list_images(folder)))
        parts = [part for part in _SPLITS if (folder / part).is_dir()] if _has_splits(folder) else [""]
        names: tuple[str, ...] = ()
        class_names: tuple[str, ...] = ()
        labels: list[Tensor] = []
        for part in parts:
            added, y, class_names = list_classes(folder, part, class_names)
            names, labels = names + added, [*labels, y]
        images, good = self._decoded(ImageFiles(folder, names))
        positions = torch.arange(len(names)).split([len(y) for y in labels])
        given = {part or "train": where[good[where]] for part, where in zip(parts, positions, strict=True)}
        return self.dataset(images, torch.cat(labels), given, class_names, (MEAN, STD))

    def outside(self, root: Path | None = None) -> tuple[Split, tuple[str, ...]]:
        """The images of `test` if there is such a folder, else all; they need no folders for classes."""
        folder = Path(self.path)
        if _has_splits(folder) and (folder / "test").is_dir():
            folder /= "test"
        files = list_images(folder)
        images, good = self._decoded(files)
        where = good.nonzero().flatten()
        class_names = sorted({name.partition("/")[0] for name in files.names if "/" in name})
        check_class_names(folder, class_names)
        return Split(images[where], torch.zeros(len(where), dtype=torch.long), where), tuple(class_names)

    def _decoded(self, files: ImageFiles) -> tuple[Images, Bool[Tensor, " N"]]:
        """All images, in memory if they are small, and which of them decode."""
        images, bad = decode_all(files, self.image_size) if self.image_size <= SMALL else (files, undecodable(files))
        if bad:
            names, count = listed([f"{name} ({reason})" for name, reason in bad.items()], 10), f"{len(bad)} of {len(files)}"
            skip = self.on_bad_image == "skip"
            require(skip, f"images in {files.folder} must decode, {count} do not (on_bad_image can skip): {names}")
            warnings.warn(one_line(f"{count} images in {files.folder} do not decode and are skipped: {names}"), stacklevel=2)
        return images, torch.tensor([name not in bad for name in files.names])


def _has_splits(folder: Path) -> bool:
    """Whether its folders are splits; if there are other folders too, all are classes, of which `train` may be one."""
    inside = {each.name for each in folder.iterdir() if each.is_dir() and not each.name.startswith(".")}
    return "train" in inside and inside <= set(_SPLITS)


@register("npz")
@dataclass(frozen=True)
class Npz(OwnData):
    """Arrays of your own, npz:PATH: bytes `x` and labels `y`, or `x_train`, `y_train` and the same for val and test.

    Images are [N, H, W], [N, H, W, C] or [N, C, H, W], square, with 1 or 3 channels; labels are 0 to K - 1, and each class has
    a training image. Validation and test samples that are not given are taken from the training samples: a tenth and a fifth
    of each class. Images are normalised with the mean and standard deviation of the training samples.
    """

    def probe(self, path: Path) -> tuple[str, int]:
        images = next(iter(_images(path).values()))
        return file_hash(path), images.shape[-1]

    def read(self, root: Path) -> Dataset:
        path = Path(self.path)
        images = _images(path)
        self.check_unchanged(file_hash(path))
        x = torch.cat(list(images.values()))
        y = torch.cat([_labels(path, name, len(part), len(x)) for name, part in images.items()])
        require(self.image_size == x.shape[-1], f"image_size must be that of {path}'s images, {x.shape[-1]}, got {self.image_size}")
        parts = torch.arange(len(y)).split([len(part) for part in images.values()])
        given = {"train" if name == "x" else name[2:]: part for name, part in zip(images, parts, strict=True)}
        num_classes = int(y.max()) + 1
        require(num_classes >= 2, f"{path} must have labels 0 to K - 1 of at least 2 classes, got {num_classes}")
        return self.dataset(x, y, given, tuple(str(label) for label in range(num_classes)), None)

    def outside(self, root: Path | None = None) -> tuple[Split, tuple[str, ...]]:
        images = _images(Path(self.path))
        x = images.get("x_test", torch.cat(list(images.values())))
        return Split(x, torch.zeros(len(x), dtype=torch.long), torch.arange(len(x))), ()


def _images(path: Path) -> dict[str, UInt8[Tensor, "N C S S"]]:
    """Images by the name of their array: `x` alone, or `x_train` with or without the others."""
    arrays = read_npz(path, optional=("x", "x_train", "x_val", "x_test"))
    images = {name: _channels_first(path, name, array) for name, array in arrays.items()}
    rule, found = "images 'x', or 'x_train' and optionally 'x_val' and 'x_test'", ", ".join(images) or "none of them"
    require(list(images) == ["x"] or ("x_train" in images and "x" not in images), f"{path} must hold {rule}, got {found}")
    shapes = {tuple(each.shape[1:]) for each in images.values()}
    require(len(shapes) == 1, f"{path} must hold images of one size, got {sorted(shapes)}")
    return images


def _channels_first(path: Path, name: str, array: NDArray[Any]) -> UInt8[Tensor, "N C S S"]:
    require(array.dtype == np.uint8, f"{name!r} of {path} must hold bytes (uint8, 0 to 255), got {array.dtype}")
    got = f"got shape {list(array.shape)}"
    require(array.ndim in (3, 4) and len(array) > 0, f"{name!r} of {path} must be [N, H, W], [N, H, W, C] or [N, C, H, W], {got}")
    x = torch.from_numpy(array)
    if x.ndim == 3:
        x = x.unsqueeze(1)
    elif x.shape[-1] in _CHANNELS:
        x = x.permute(0, 3, 1, 2)
    square = x.shape[1] in _CHANNELS and x.shape[2] == x.shape[3]
    require(square, f"{name!r} of {path} must hold square images of 1 or 3 channels, {got}")
    return x


def _labels(path: Path, images: str, size: int, total: int) -> Int[Tensor, " N"]:
    """Labels of `size` images out of `total`; each class has an image, so there are at most as many classes as images."""
    name = f"y{images[1:]}"
    y = read_npz(path, name)[name]
    valid, found = y.shape == (size,) and y.dtype.kind in "iu" and bool((y >= 0).all()), f"{y.dtype} of shape {list(y.shape)}"
    require(valid, f"{name!r} of {path} must hold a label of at least 0 for each of {size} images, got {found}")
    require(int(y.max()) < total, f"{name!r} of {path} must hold labels below the number of images, {total}, got {y.max()}")
    return torch.from_numpy(y.astype(np.int64))


def _moments(x: Images) -> Moments:
    assert isinstance(x, Tensor)
    # From counts of the 256 values: no copy in floats, and exact.
    counts = torch.stack([torch.bincount(channel.flatten(), minlength=256) for channel in x.unbind(1)]).double()
    weights, values = counts / counts.sum(1, keepdim=True), torch.arange(256).double() / 255
    mean = weights @ values
    std = (weights * (values - mean.unsqueeze(1)).square()).sum(1).sqrt()
    # Images of one colour have nothing to scale.
    return tuple(mean.tolist()), tuple(torch.where(std > 0, std, 1.0).tolist())
