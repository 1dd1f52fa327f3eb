"""Data sets of a user's own at a path, folder:PATH and npz:PATH: identified by their content, not by their path."""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median_high
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from rankmixup.data.arrays import Moments, moments, read_arrays
from rankmixup.data.base import Dataset, DataSource, ImageFiles, Images, Split, register
from rankmixup.data.cache import fingerprint_of, undecodable
from rankmixup.data.imagenet import MEAN, STD
from rankmixup.data.images import SMALL, check_class_names, decode_all, list_classes, list_images, shorter_sides
from rankmixup.data.labels import check_labels, class_labels
from rankmixup.data.splits import complete_splits
from rankmixup.data.view import View
from rankmixup.errors import listed, one_line, require
from rankmixup.files import file_hash, read_npz

_SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class OwnData(DataSource):
    """Data of the user's own, at a path.

    `image_size` and `augment` are taken from the data where they are not given, and `fingerprint` when it is first asked for, as by
    the id of a run: all content is read for it. Once they are known, nothing is read before `load`, which then requires the same
    content. The path takes no part in comparisons nor in the id of a run.
    """

    path: str = field(default="", compare=False)
    """Folder or file."""
    # Neither a default of the class, which would keep __getattr__ from being asked, nor part of the representation, which asks.
    fingerprint: str = field(default_factory=str, repr=False)
    """Hash of the content."""
    image_size: int = 0
    """Height and width of a network's input; 0 takes it from the images."""
    augment: Literal["auto", "none", "crop", "crop-and-flip"] = "auto"
    """Augmentation in training: none, which is all that floats can have; random crops; or these and mirror images, the default for
    bytes, if a mirrored image has the same class."""

    def check(self) -> None:
        super().check()
        require(self.path != "", f"{self.name} must be followed by a path, as in {self.name}:PATH, got nothing")
        require(self.image_size >= 0, f"image_size must be at least 0, got {self.image_size}")
        if self.fingerprint and self.image_size and self.augment != "auto":
            return
        object.__setattr__(self, "path", str(Path(self.path).expanduser().resolve()))
        object.__setattr__(self, "image_size", self.default_size(Path(self.path)))
        if self.augment == "auto":
            object.__setattr__(self, "augment", self.default_augment(Path(self.path)))
        if not self.fingerprint:
            object.__delattr__(self, "fingerprint")

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if name != "fingerprint" or "path" not in vars(self):  # as where an object is copied
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return self.check_unchanged()

    @abstractmethod
    def hashed(self, path: Path) -> str:
        """Hash of the content of `path`."""

    @abstractmethod
    def default_size(self, path: Path) -> int:
        """Height and width of a network's input for the content of `path`, `image_size` if that is given."""

    def default_augment(self, path: Path) -> Literal["none", "crop-and-flip"]:
        """What `augment` is for the content of `path` where it is not given."""
        return "crop-and-flip"

    def check_unchanged(self) -> str:
        """The hash of the content; raises unless it is the one that this object was made for."""
        found = self.hashed(Path(self.path))
        made_for = vars(self).setdefault("fingerprint", found)
        rule = f"{self.path} must be unchanged since the run was made, fingerprint {made_for[:12]}"
        require(found == made_for, f"{rule}, got {found[:12]}")
        return found

    def dataset(
        self, images: Images, y: Tensor, given: dict[str, Tensor], class_names: tuple[str, ...], constants: Moments | None
    ) -> Dataset:
        """The data set out of the positions of samples in each split; `constants` are by default those of the training images."""
        counts = torch.bincount(y[given["train"]], minlength=len(class_names))
        missing = [repr(class_names[label]) for label in (counts == 0).nonzero().flatten().tolist()]
        require(not missing, f"{self.path} must have a training image of each class, it has none of {listed(missing, 5)}")
        train, val, test = complete_splits(images, y, given, class_names)
        crop: Literal["crop", "resized-crop"] = "resized-crop" if isinstance(images, ImageFiles) else "crop"
        mean, std = constants or moments(train.x)
        floats = isinstance(images, Tensor) and images.is_floating_point()
        kind: Literal["bytes", "floats"] = "floats" if floats else "bytes"
        shape = tuple(images.shape[1:]) if isinstance(images, Tensor) and images.ndim == 2 else ()
        augment, flip = "none" if self.augment == "none" else crop, self.augment == "crop-and-flip"
        view = View(self.image_size, mean, std, augment, flip=flip, values=kind, shape=shape)
        return Dataset(train, val, test, class_names, view, val_from_train="val" not in given)


@register("folder")
@dataclass(frozen=True)
class Folder(OwnData):
    """Images of your own, folder:PATH: `train`, optionally `val` and `test`, or all in one, with a folder for each class.

    Validation and test images that are not given are taken from the training images: a tenth and a fifth of each class. The
    size of the input is the median of the images' shorter sides if that is at most 64 pixels, and else 224. Images of up to 64
    pixels are cropped to a square, resized and held in memory; larger ones are decoded when they are needed. All are turned
    as the camera notes it in the file (EXIF) and become RGB: grey is repeated, transparent pixels are drawn over black, 16
    bits are scaled to 8; they are normalised with ImageNet's constants.
    """

    on_bad_image: Literal["refuse", "skip"] = "refuse"
    """Whether images that do not decode stop the run or are left out; either way they are named and counted."""

    def hashed(self, path: Path) -> str:
        return fingerprint_of(list_images(path))

    def default_size(self, path: Path) -> int:
        files = list_images(path)
        return self.image_size or _size_of(median_high(shorter_sides(files)))

    def read(self, root: Path) -> Dataset:
        self.check_unchanged()
        sides = shorter_sides(list_images(Path(self.path)))
        median = median_high(sides)
        # Said where a network is trained; to show images to one that was, its own size counts.
        if self.image_size == _size_of(median) and _size_of(sides[0]) != _size_of(sides[-1]):
            found = f"images in {self.path} have shorter sides from {sides[0]} to {sides[-1]} pixels"
            taken = f"their median is {median}, and the network's input {self.image_size}x{self.image_size}"
            warnings.warn(one_line(f"{found}; {taken} (image_size sets another)"), stacklevel=2)
        return self._read(self._decoded)

    def read_outline(self, root: Path) -> Dataset | None:
        def undecoded(files: ImageFiles) -> tuple[Images, Bool[Tensor, " N"]]:
            small, size = self.image_size <= SMALL, self.image_size
            images = torch.empty(len(files), 3, size, size, dtype=torch.uint8, device="meta") if small else files
            return images, torch.ones(len(files), dtype=torch.bool)

        return self._read(undecoded) if Path(self.path).is_dir() else None

    def _read(self, decode: Callable[[ImageFiles], tuple[Images, Bool[Tensor, " N"]]]) -> Dataset:
        folder = Path(self.path)
        parts = [part for part in _SPLITS if (folder / part).is_dir()] if _has_splits(folder) else [""]
        names: tuple[str, ...] = ()
        class_names: tuple[str, ...] = ()
        labels: list[Tensor] = []
        for part in parts:
            added, y, class_names = list_classes(folder, part, class_names)
            names, labels = names + added, [*labels, y]
        images, good = decode(ImageFiles(folder, names))
        positions = torch.arange(len(names)).split([len(y) for y in labels])
        given = {part or "train": where[good[where]] for part, where in zip(parts, positions, strict=True)}
        return self.dataset(images, torch.cat(labels), given, class_names, (MEAN, STD))

    def labelled(self, root: Path | None = None, *, download: bool = False) -> tuple[Split, tuple[str, ...]]:
        """The images of `test` if there is such a folder, else all."""
        folder = self._test_folder()
        names, y, class_names = list_classes(folder)
        return Split(ImageFiles(folder, names), y, torch.arange(len(y))), class_names

    def outside(self, root: Path | None = None) -> tuple[Split, tuple[str, ...]]:
        """The images of `test` if there is such a folder, else all; they need no folders for classes."""
        folder = self._test_folder()
        files = list_images(folder)
        # Not in memory, where they would be cropped and resized before the network that they are shown to asks for its own size.
        where = self._good(files, undecodable(files)).nonzero().flatten()
        class_names = sorted({name.partition("/")[0] for name in files.names if "/" in name})
        check_class_names(folder, class_names)
        return Split(files[where], torch.zeros(len(where), dtype=torch.long), where), tuple(class_names)

    def _test_folder(self) -> Path:
        folder = Path(self.path)
        return folder / "test" if _has_splits(folder) and (folder / "test").is_dir() else folder

    def _decoded(self, files: ImageFiles) -> tuple[Images, Bool[Tensor, " N"]]:
        """All images, in memory if they are small, and which of them decode."""
        images, bad = decode_all(files, self.image_size) if self.image_size <= SMALL else (files, undecodable(files))
        return images, self._good(files, bad)

    def _good(self, files: ImageFiles, bad: dict[str, str]) -> Bool[Tensor, " N"]:
        """Which files decode; those of `bad` are refused, or named in a warning."""
        if bad:
            names, count = listed([f"{name} ({reason})" for name, reason in bad.items()], 10), f"{len(bad)} of {len(files)}"
            skip = self.on_bad_image == "skip"
            require(skip, f"images in {files.folder} must decode, {count} do not (on_bad_image can skip): {names}")
            warnings.warn(one_line(f"{count} images in {files.folder} do not decode and are skipped: {names}"), stacklevel=2)
        return torch.tensor([name not in bad for name in files.names])


def _size_of(side: int) -> int:
    """The network's input for images of this shorter side."""
    return side if side <= SMALL else 224


def _has_splits(folder: Path) -> bool:
    """Whether its folders are splits; if there are other folders too, all are classes, of which `train` may be one."""
    inside = {each.name for each in folder.iterdir() if each.is_dir() and not each.name.startswith(".")}
    return "train" in inside and inside <= set(_SPLITS)


@register("npz")
@dataclass(frozen=True)
class Npz(OwnData):
    """Arrays of your own, npz:PATH: samples `x` and labels `y`, or `x_train`, `y_train` and the same for val and test.

    Images of bytes are [N, H, W], [N, H, W, C] or [N, C, H, W], with 1 or 3 channels; images of floats have any number of
    channels. All are square. Numbers [N, D] are a table. Labels are integers or text, and each class has a training sample.
    Validation and test samples that are not given are taken from the training samples: a tenth and a fifth of each class.
    Each channel or column is normalised with the mean and standard deviation of the training samples.
    """

    def hashed(self, path: Path) -> str:
        return file_hash(path)

    def default_size(self, path: Path) -> int:
        x = next(iter(read_arrays(path, content=False).values()))
        return self.image_size or (1 if x.ndim == 2 else x.shape[-1])

    def default_augment(self, path: Path) -> Literal["none", "crop-and-flip"]:
        return "none" if next(iter(read_arrays(path, content=False).values())).is_floating_point() else "crop-and-flip"

    def read(self, root: Path) -> Dataset:
        return self._read(read_arrays(Path(self.path)))

    def read_outline(self, root: Path) -> Dataset | None:
        return self._read(read_arrays(Path(self.path), content=False)) if Path(self.path).is_file() else None

    def _read(self, arrays: dict[str, Tensor]) -> Dataset:
        path, x = Path(self.path), torch.cat(list(arrays.values()))
        self.check_unchanged()
        size = 1 if x.ndim == 2 else x.shape[-1]
        require(self.image_size == size, f"image_size must be that of {path}'s images, {size}, got {self.image_size}")
        names = {name: f"y{name[1:]}" for name in arrays}
        given = {"train" if name == "x" else name[2:]: len(part) for name, part in arrays.items()}
        labels = read_npz(path, *names.values())
        checked = {f"{y!r} of {path}": check_labels(f"{y!r} of {path}", labels[y], len(arrays[x])) for x, y in names.items()}
        class_names, indices = class_labels(checked)
        parts = torch.arange(len(x)).split(list(given.values()))
        return self.dataset(x, torch.cat(indices), dict(zip(given, parts, strict=True)), class_names, None)

    def labelled(self, root: Path | None = None, *, download: bool = False) -> tuple[Split, tuple[str, ...]]:
        """The test samples if there are any, else all."""
        path, arrays = Path(self.path), read_arrays(Path(self.path))
        chosen = {"x_test": arrays["x_test"]} if "x_test" in arrays else arrays
        labels = read_npz(path, *(f"y{name[1:]}" for name in chosen))
        checked = [check_labels(f"{y!r} of {path}", labels[y], len(x)) for y, x in zip(labels, chosen.values(), strict=True)]
        class_names, (y,) = class_labels({str(path): np.concatenate(checked)})
        return Split(torch.cat(list(chosen.values())), y, torch.arange(len(y))), class_names

    def outside(self, root: Path | None = None) -> tuple[Split, tuple[str, ...]]:
        arrays = read_arrays(Path(self.path))
        x = arrays.get("x_test", torch.cat(list(arrays.values())))
        return Split(x, torch.zeros(len(x), dtype=torch.long), torch.arange(len(x))), ()
