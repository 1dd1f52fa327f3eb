"""Checks for samples that should not be there: images in two splits, test images in validation, known classes in OOD sets."""

import hashlib
import itertools
from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from rankmixup.data.base import Dataset, ImageFiles, Images, Samples
from rankmixup.data.cache import digests
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
