"""A folder of images of a user's own."""

import contextlib
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool
from PIL import Image
from torch import Tensor

from rankmixup.data.base import Dataset, ImageFiles, Images, Split, View, register
from rankmixup.data.class_folders import list_classes, require_text
from rankmixup.data.digests import fingerprint_of, user_cache
from rankmixup.data.imagenet import MEAN, STD
from rankmixup.data.images import BadImage, decode_each, fitted, image_names
from rankmixup.data.own import OwnData, split_up
from rankmixup.errors import InvalidInput, one_line, require
from rankmixup.files import read_json, write_json

__all__ = ["Folder"]

_SPLITS = ("train", "val", "test")
_SMALL = 64
"""Images up to this size are held in memory."""
_LARGE = 224


@register("folder")
@dataclass(frozen=True)
class Folder(OwnData):
    """Images of your own, folder:PATH: `train`, optionally `val` and `test`, or all in one, with a folder for each class.

    Validation and test images that are not given are taken from the training images: a tenth and a fifth of each class. The
    size of the input is the first image's, its shorter side, up to 64 pixels, and 224 where that is larger. Images of up to 64
    pixels are cropped to a square, resized and held in memory; larger ones are decoded when they are needed. All become RGB:
    grey is repeated, transparent pixels are laid over black, 16 bits are scaled to 8; they are normalised with ImageNet's
    constants.
    """

    on_bad_image: Literal["refuse", "skip"] = "refuse"
    """What becomes of images that do not decode; either way they are named and counted."""

    def probe(self, path: Path) -> tuple[str, int]:
        files = _files(path)
        return fingerprint_of(files), self.image_size or _probed_size(files)

    def read(self, root: Path) -> Dataset:
        folder = Path(self.path)
        self.require_unchanged(fingerprint_of(_files(folder)))
        parts = [part for part in _SPLITS if (folder / part).is_dir()] if _has_splits(folder) else [""]
        train = list_classes(folder / parts[0])
        listed = [train] + [list_classes(folder / part, train.class_names) for part in parts[1:]]
        names = tuple(f"{part}/{name}".removeprefix("/") for part, each in zip(parts, listed, strict=True) for name in each.names)
        y = torch.cat([each.y for each in listed])
        part_of = torch.repeat_interleave(torch.arange(len(parts)), torch.tensor([len(each.y) for each in listed]))

        images, good = self._decoded(ImageFiles(folder, names))
        given = {part or "train": (good & (part_of == number)).nonzero().flatten() for number, part in enumerate(parts)}
        counts = torch.bincount(y[given["train"]], minlength=len(train.class_names)).tolist()
        for class_name, count in zip(train.class_names, counts, strict=True):
            require(count > 0, f"class {class_name!r} of {folder} must have a training image that decodes, it has none")
        crop: Literal["crop", "resized-crop"] = "crop" if self.image_size <= _SMALL else "resized-crop"
        view = View(self.image_size, MEAN, STD, augment="none" if self.augment == "none" else crop, flip=self.flips)
        return Dataset(*split_up(images, y, given, train.class_names), train.class_names, view, val_from_train="val" not in given)

    def outside(self, root: Path | None = None) -> tuple[Split, tuple[str, ...]]:
        """The images of `test` if there is one, else all; they need no folders for classes."""
        folder = Path(self.path)
        if _has_splits(folder) and (folder / "test").is_dir():
            folder /= "test"
        files = _files(folder)
        images, good = self._decoded(files)
        where = good.nonzero().flatten()
        class_names = sorted({name.partition("/")[0] for name in files.names if "/" in name})
        require_text(folder, class_names)
        return Split(images[where], torch.zeros(len(where), dtype=torch.long), where), tuple(class_names)

    def _decoded(self, files: ImageFiles) -> tuple[Images, Bool[Tensor, " N"]]:
        """All images, in memory if they are small, and which of them decode."""
        images: Images = files
        bad: dict[str, str] = {}
        if self.image_size <= _SMALL:
            store = np.zeros((len(files), self.image_size, self.image_size, 3), dtype=np.uint8)
            decoded = decode_each(files, lambda image: fitted(image, self.image_size), f"decoding {files.folder.name}")
            for number, pixels in enumerate(decoded):
                if isinstance(pixels, BadImage):
                    bad[files.names[number]] = str(pixels)
                else:
                    store[number] = pixels
            images = torch.from_numpy(store).permute(0, 3, 1, 2)
        else:
            bad = _undecodable(files)
        if bad:
            shown = ", ".join(f"{name} ({reason})" for name, reason in list(bad.items())[:10])
            listing = shown + (f" and {len(bad) - 10} more" if len(bad) > 10 else "")
            if self.on_bad_image == "refuse":
                raise InvalidInput(
                    f"images in {files.folder} must decode, {len(bad)} of {len(files)} do not (on_bad_image can skip): {listing}"
                )
            text = f"{len(bad)} of {len(files)} images in {files.folder} do not decode and are skipped: {listing}"
            warnings.warn(one_line(text), stacklevel=2)
        return images, torch.tensor([name not in bad for name in files.names])


def _undecodable(files: ImageFiles) -> dict[str, str]:
    """Which images do not decode, and why; kept in the user's cache, since it takes minutes to find out."""
    path = user_cache() / f"undecodable-{fingerprint_of(files)[:16]}.json"
    with contextlib.suppress(InvalidInput):
        held = read_json(path)
        # A file that is another's is as good as none.
        if isinstance(held, dict) and set(held) <= set(files.names):
            return {name: str(why) for name, why in held.items()}
    verdicts = decode_each(files, lambda image: None, f"checking {files.folder.name}")
    bad = {name: str(verdict) for name, verdict in zip(files.names, verdicts, strict=True) if verdict is not None}
    # Without a cache folder it is found out again next time.
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, bad)
    return bad


def _files(folder: Path) -> ImageFiles:
    require(folder.is_dir(), f"{folder} must be a folder of images, there is none")
    names = image_names(folder)
    require(len(names) > 0, f"{folder} must hold images, it holds none")
    return ImageFiles(folder, tuple(names))


def _has_splits(folder: Path) -> bool:
    """Whether its folders are splits; one that holds others too is taken for classes, of which `train` may be one."""
    inside = {each.name for each in folder.iterdir() if each.is_dir() and not each.name.startswith(".")}
    return "train" in inside and inside <= set(_SPLITS)


def _probed_size(files: ImageFiles) -> int:
    """The shorter side of the first image that opens, or that of ImageNet's inputs where it is larger than what is held in memory."""
    for name in files.names:
        try:
            with Image.open(files.folder / name) as image:
                shorter = min(image.size)
        # Decoders raise whatever a damaged file leads them to; `load` says which do not decode.
        except Exception:  # noqa: S112
            continue
        return shorter if shorter <= _SMALL else _LARGE
    raise InvalidInput(f"{files.folder} must hold an image that can be opened, none of {len(files)} can")
