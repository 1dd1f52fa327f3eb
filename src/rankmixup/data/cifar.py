"""CIFAR-10 and CIFAR-100 from their Python batches."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from rankmixup.data.base import Dataset, DataSource, register
from rankmixup.data.download import PUBLISHED, Remote, fetch_archive, verify
from rankmixup.data.splits import consecutive, fewer, shrunk, tenth_held_out
from rankmixup.data.unpickle import read_pickle
from rankmixup.data.view import View
from rankmixup.errors import InvalidInput, require

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
"""Of CIFAR-10, as the paper's release has them; it uses them for CIFAR-100 and SVHN too."""


@dataclass(frozen=True)
class _Cifar(DataSource):
    archive: ClassVar[Remote]
    folder: ClassVar[str]
    files: ClassVar[dict[str, str]]
    """Names and md5 sums: batches of training images, the test batch, and the names of the classes."""
    labels_key: ClassVar[bytes]
    names_key: ClassVar[bytes]

    train_size: int = 0
    """Training images, the same number of each class and always the same images; 0 uses all."""
    val_size: int = 0
    """Validation images, likewise."""
    shrink: Literal[1, 2] = 1
    """Side of the squares of pixels that are averaged into one: 2 leaves 16x16 pixels."""
    augment: Literal["none", "crop-and-flip"] = "crop-and-flip"
    """Augmentation in training: none, or random crops and mirror images."""

    def check(self) -> None:
        super().check()
        for name in ("train_size", "val_size"):
            require(getattr(self, name) >= 0, f"{name} must be at least 0, got {getattr(self, name)}")

    @property
    def image_size(self) -> int:
        return 32 // self.shrink

    @classmethod
    def location(cls, root: Path) -> Path:
        return root / cls.folder

    def download(self, root: Path) -> None:
        if not all((self.location(root) / name).is_file() for name in self.files):
            fetch_archive(self.archive, root, self.folder)

    def read(self, root: Path) -> Dataset:
        folder = self.location(root)
        for name, md5 in self.files.items():
            verify(folder / name, md5, self.name)
        *batches, meta_name = self.files
        names: Any = read_pickle(folder / meta_name).get(self.names_key)
        valid = isinstance(names, list) and len(names) >= 2 and all(isinstance(name, bytes) for name in names)
        require(valid, f"{folder / meta_name} must hold {self.names_key.decode()!r}, a list of at least 2 names")

        # First the labels, to know how many images there are; then pixels straight to their places, channels last.
        labels = [self._batch(folder / name, len(names))[1] for name in batches]
        y = torch.cat(labels)
        index, sizes = tenth_held_out(len(y) - len(labels[-1]), len(labels[-1]), self.name)
        place = index.argsort().numpy()
        x, done = np.empty((len(y), 32, 32, 3), dtype=np.uint8), 0
        for name in batches:
            pixels, _ = self._batch(folder / name, len(names))
            for channel in range(3):  # three times as fast as all at once
                x[place[done : done + len(pixels)], :, :, channel] = pixels[:, channel]
            done += len(pixels)
            del pixels  # before the next batch is read

        train, val, test = consecutive(torch.from_numpy(x).permute(0, 3, 1, 2), y[index], index, sizes)
        train = fewer(train, self.train_size, f"{self.name} train_size", len(names))
        val = fewer(val, self.val_size, f"{self.name} val_size", len(names))
        train, val, test = (shrunk(split, self.shrink) for split in (train, val, test))
        augmented = self.augment != "none"
        view = View(self.image_size, MEAN, STD, augment="crop" if augmented else "none", padding=4 // self.shrink, flip=augmented)
        return Dataset(train, val, test, tuple(name.decode(errors="replace") for name in names), view, val_from_train=True)

    def _batch(self, path: Path, num_classes: int) -> tuple[UInt8[np.ndarray, "N 3 32 32"], Int[Tensor, " N"]]:
        content: dict[bytes, Any] = read_pickle(path)
        data, labels, name = content.get(b"data"), content.get(self.labels_key), self.labels_key.decode()
        if not (isinstance(data, np.ndarray) and data.dtype == np.uint8 and data.shape[1:] == (3072,)):
            raise InvalidInput(f"{path} must hold 'data', rows of 3072 bytes")
        if not (isinstance(labels, list) and len(labels) == len(data) and all(label in range(num_classes) for label in labels)):
            raise InvalidInput(f"{path} must hold {name!r}, one in 0..{num_classes - 1} for each of {len(data)} images")
        return data.reshape(-1, 3, 32, 32), torch.tensor(labels)


@register("cifar10")
@dataclass(frozen=True)
class Cifar10(_Cifar):
    """CIFAR-10: 60,000 images of 32x32 pixels in 10 classes, 45,000 / 5,000 / 10,000.

    Validation images are a fixed tenth of the training set, not stratified, as in the paper's release.
    """

    archive = Remote("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a")
    folder = "cifar-10-batches-py"
    files: ClassVar = PUBLISHED["cifar10"]
    labels_key = b"labels"
    names_key = b"label_names"


@register("cifar100")
@dataclass(frozen=True)
class Cifar100(_Cifar):
    """CIFAR-100: 60,000 images of 32x32 pixels in 100 classes, 45,000 / 5,000 / 10,000.

    Validation images are a fixed tenth of the training set, not stratified, as in the paper's release.
    **Deviation:** the release normalises training images with CIFAR-10's constants and test images with ImageNet's; here
    CIFAR-10's are used for all.
    """

    archive = Remote("https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85")
    folder = "cifar-100-python"
    files: ClassVar = PUBLISHED["cifar100"]
    labels_key = b"fine_labels"
    names_key = b"fine_label_names"
