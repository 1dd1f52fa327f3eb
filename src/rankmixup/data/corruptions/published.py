"""The published files: CIFAR-10-C and CIFAR-100-C as npy arrays, Tiny-ImageNet-C as folders of images."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from rankmixup.config import content_hash
from rankmixup.data.base import ImageFiles, Split
from rankmixup.data.corruptions.base import SEVERITIES, published_names
from rankmixup.data.images import list_classes
from rankmixup.errors import InvalidInput, require
from rankmixup.files import readable

FOLDERS = {"cifar10": "CIFAR-10-C", "cifar100": "CIFAR-100-C", "tiny-imagenet": "Tiny-ImageNet-C"}
"""Folder below the data root, by data set."""


@dataclass(frozen=True)
class PublishedImages:
    """Published corrupted images of one data set."""

    folder: Path
    num_classes: int

    @property
    def in_arrays(self) -> bool:
        """Whether they are npy files; folders of images otherwise."""
        return self.folder.name != FOLDERS["tiny-imagenet"]

    @property
    def names(self) -> list[str]:
        """The corruptions that are there."""
        found = [name for name in published_names() if self._place(name).exists()]
        kind = "NAME.npy" if self.in_arrays else "a folder NAME"
        require(len(found) > 0, f"{self.folder} must hold {kind} for at least one corruption, such as fog, it holds none")
        return found

    def _place(self, name: str) -> Path:
        return self.folder / (f"{name}.npy" if self.in_arrays else name)

    def split(self, name: str, severity: int) -> Split:
        """The images of one corruption at one severity, with their labels; `index` is the position among them."""
        require(self._place(name).exists(), f"{self.folder} must hold {self._place(name).name}, it does not")
        if not self.in_arrays:
            part = f"{name}/{severity}"
            names, y, classes = list_classes(self.folder, part, self._wnids())
            rule = f"{self.folder / part} must hold a folder for each of {self.num_classes} classes"
            require(len(classes) == self.num_classes, f"{rule}, got {len(classes)}")
            return Split(ImageFiles(self.folder, names), y, torch.arange(len(y)))
        x = _array(self._place(name))
        labels = self._labels(len(x))
        size = len(x) // len(SEVERITIES)
        rows = slice((severity - 1) * size, severity * size)
        # A copy of this severity alone: the file stays mapped, and is larger than memory may be.
        return Split(torch.from_numpy(np.array(x[rows])).permute(0, 3, 1, 2), labels[rows], torch.arange(size))

    def fingerprint(self, name: str, severity: int) -> str:
        """What changes with the images: name, size and time of the file, or the names of the images."""
        if self.in_arrays:
            with readable(self._place(name)):
                stat = self._place(name).stat()
            return content_hash([self.folder.name, name, severity, stat.st_size, stat.st_mtime_ns])
        images = self.split(name, severity).x
        assert isinstance(images, ImageFiles)
        return content_hash([self.folder.name, list(images.names)])

    def _labels(self, size: int) -> Int[Tensor, " N"]:
        path = self.folder / "labels.npy"
        labels = _read_npy(path)
        found = f"{labels.dtype} {list(labels.shape)}"
        require(labels.dtype.kind in "iu" and labels.shape == (size,), f"{path} must hold {size} integers, as many as images, got {found}")
        y = torch.from_numpy(labels.astype(np.int64))
        valid = int(y.min()) >= 0 and int(y.max()) < self.num_classes
        require(valid, f"{path} must hold labels in 0..{self.num_classes - 1}, got {int(y.min())}..{int(y.max())}")
        return y

    def _wnids(self) -> tuple[str, ...]:
        """Folder names of the classes, as the clean training images have them, where they are below the same root."""
        train = self.folder.parent / "tiny-imagenet-200" / "train"
        return tuple(sorted(each.name for each in train.iterdir() if each.is_dir())) if train.is_dir() else ()


def published_images(data: str, root: Path, num_classes: int) -> PublishedImages | None:
    """The published corrupted images of a data set, if their folder is below `root`."""
    folder = root / FOLDERS[data] if data in FOLDERS else None
    return PublishedImages(folder, num_classes) if folder is not None and folder.is_dir() else None


def _array(path: Path) -> NDArray[np.uint8]:
    """The images of one corruption, mapped into memory: five times as many as test images, one severity after the other."""
    x = _read_npy(path)
    valid = x.dtype == np.uint8 and x.ndim == 4 and x.shape[1:] == (32, 32, 3) and len(x) > 0 and len(x) % len(SEVERITIES) == 0
    require(valid, f"{path} must hold bytes [5 N, 32, 32, 3], got {x.dtype} {list(x.shape)}")
    return x


def _read_npy(path: Path) -> NDArray[Any]:
    with readable(path, "a whole npy file of plain numbers", Exception):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        array.close()
        raise InvalidInput(f"{path} must be an npy file, it is an archive of several arrays")
    return array
