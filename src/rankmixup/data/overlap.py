"""Checks for samples that should not be there: images in two splits, test images in validation, known classes in OOD sets."""

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rankmixup.data.base import Dataset, ImageFiles, Images, Samples
from rankmixup.data.cache import digests
from rankmixup.data.images import SMALL, decode_all
from rankmixup.errors import require

_MOST_FILES = 100_000
"""Files must be read to be compared; for more than this, training would begin too late."""


def shared_images(dataset: Dataset) -> dict[str, list[int]] | None:
    """For each two splits, as `train-test`, the positions of the samples of the latter whose exact image is also in the former.

    Images are the same if their bytes are, or those of their files. None where there are too many files to compare,
    or where a data set makes the samples.
    """
    splits = {name: getattr(dataset, name) for name in ("train", "val", "test")}
    made = any(isinstance(split.x, Samples) for split in splits.values())
    if made or sum(len(split) for split in splits.values() if isinstance(split.x, ImageFiles)) > _MOST_FILES:
        return None
    hashes = {name: _hashes(split.x) for name, split in splits.items()}
    shared = {}
    for one, other in itertools.combinations(splits, 2):
        known, pairs = set(hashes[one]), zip(splits[other].index.tolist(), hashes[other], strict=True)
        shared[f"{one}-{other}"] = [position for position, image in pairs if image in known]
    return shared


def _hashes(images: Images) -> list[str]:
    if isinstance(images, ImageFiles):
        return digests(images)
    assert isinstance(images, Tensor)
    # One image at a time, so that what is memory-mapped is never all in memory.
    return [hashlib.sha256(image.tobytes()).hexdigest() for image in images.numpy()]


@dataclass(frozen=True)
class Contents:
    """What the samples are that a run was trained and validated on, as hashes of files or of images and rows in memory."""

    train: NDArray[np.uint64]
    val: NDArray[np.uint64]
    shape: NDArray[np.int64]
    """Of a sample in memory; nothing for files."""

    @classmethod
    def of(cls, dataset: Dataset, protocol: Literal["paper", "release"]) -> "Contents | None":
        """Of a data set; None where a data set makes the samples, or there are too many files to compare."""
        held = [dataset.val, *([dataset.tuning] if dataset.tuning else [])] if protocol == "paper" else []
        parts = [split.x for split in (dataset.train, *held)]
        if any(isinstance(x, Samples) or (isinstance(x, ImageFiles) and len(x) > _MOST_FILES) for x in parts):
            return None
        x = dataset.train.x
        train, *val = map(_numbers, parts)
        shape = np.array(x.shape[1:] if isinstance(x, Tensor) else (), dtype=np.int64)
        return cls(train, np.concatenate([np.zeros(0, np.uint64), *val]), shape)

    def places(self, images: Images) -> NDArray[Any] | None:
        """Where each of other samples has been: "training", "validation", or "new" in neither; None where they cannot be compared."""
        if isinstance(images, ImageFiles) and len(self.shape) == 3 and 0 < self.shape[-1] <= SMALL:
            images = decode_all(images, int(self.shape[-1]))[0]
        if isinstance(images, Samples) or isinstance(images, ImageFiles) == (len(self.shape) > 0):
            return None
        if isinstance(images, Tensor) and images.ndim == 4 and len(self.shape) == 3 and images.shape[1] in (1, 3):
            images = images.expand(-1, 3, -1, -1) if self.shape[0] == 3 else images[:, : self.shape[0]]  # grey as three equal colours
        found = _numbers(images)
        return np.where(np.isin(found, self.train), "training", np.where(np.isin(found, self.val), "validation", "new"))


def _numbers(images: Images) -> NDArray[np.uint64]:
    """The first 64 bits of a hash of each sample; floats are compared in single precision."""
    images = images.float() if isinstance(images, Tensor) and images.is_floating_point() else images
    return np.array([int(digest[:16], 16) for digest in _hashes(images)], dtype=np.uint64)


def overlap_sentence(shared: dict[str, list[int]] | None) -> str | None:
    """A warning about the images that `shared_images` found, if there are any."""
    pairs = [(*pair.split("-"), len(where)) for pair, where in (shared or {}).items() if where]
    found = [f"of {other} {count:,} {'is' if count == 1 else 'are'} in {one}" for one, other, count in pairs]
    return f"splits should have no image in common, but {', '.join(found)}" if found else None


def check_held_out(dataset: Dataset, protocol: Literal["paper", "release"]) -> None:
    """Refuse test samples among those trained on, and among those that an epoch is selected and a temperature fitted on.

    The paper's release did the latter for long tails; `protocol="release"` does so too.
    """
    test = set(dataset.test.index.tolist())
    for name, purpose in (("train", "trained"), ("val", "selected and fitted")):
        both = len(test.intersection(getattr(dataset, name).index.tolist()))
        allowed = name == "val" and protocol == "release"
        require(both == 0 or allowed, f"test samples must not be {purpose} on, but {both:,} of them are in the split {name!r} too")


def shared_classes(known: Sequence[str], unknown: Sequence[str]) -> list[str]:
    """Classes that are in both lists, ignoring case and separators.

    >>> shared_classes(["cat", "Pickup Truck"], ["pickup_truck", "fox"])
    ['Pickup Truck']
    """

    def folded(name: str) -> str:
        return name.casefold().replace("_", " ").replace("-", " ").strip()

    others = {folded(name) for name in unknown}
    return [name for name in known if folded(name) in others]
