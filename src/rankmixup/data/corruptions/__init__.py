"""Corruptions of images at five severities, generated as in CIFAR-10-C, Tiny-ImageNet-C and ImageNet-C, or read from their files."""

from rankmixup.data.corruptions import blur, digital, noise, weather  # noqa: F401 - registers them
from rankmixup.data.corruptions.base import (
    CONSTANTS,
    CORRUPTIONS,
    GROUPS,
    SEVERITIES,
    VERSION,
    Corruption,
    chosen_corruptions,
    corrupt,
    published_size,
)
from rankmixup.data.corruptions.originals import Originals
from rankmixup.data.corruptions.published import PublishedImages, published_images

__all__ = ["CONSTANTS", "CORRUPTIONS", "GROUPS", "SEVERITIES", "VERSION", "Corruption", "Originals", "PublishedImages"]
__all__ += ["chosen_corruptions", "corrupt", "published_images", "published_size"]
