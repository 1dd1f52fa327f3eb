"""ImageNet from folders that the user has."""

from dataclasses import dataclass
from pathlib import Path

import torch

from rankmixup.data.base import Dataset, DataSource, ImageFiles, Split, View, register
from rankmixup.data.class_folders import list_classes
from rankmixup.data.splits import hold_out_of_each_class
from rankmixup.errors import InvalidInput, require

__all__ = ["MEAN", "STD", "ImageNet"]

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet, as everyone has them."""


@register("imagenet")
@dataclass(frozen=True)
class ImageNet(DataSource):
    """ImageNet: 1.28 million photos in 1,000 classes; a fifth of its 50,000 validation images is for validation, the rest for testing.

    The folder `imagenet` of the data root, or the data root itself, holds `train` and `val`, each with a folder for every class.
    """

    @property
    def image_size(self) -> int:
        return 224

    def download(self, root: Path) -> None:
        raise InvalidInput("imagenet must be fetched by hand, as its terms of access ask for; there is no --download")

    def read(self, root: Path) -> Dataset:
        folder = root / "imagenet" if (root / "imagenet").is_dir() else root
        for part in ("train", "val"):
            require((folder / part).is_dir(), f"imagenet must lie in {root / 'imagenet'} with folders train and val, there is no {part}")
        train = list_classes(folder / "train")
        val = list_classes(folder / "val", train.class_names)
        files = ImageFiles(folder, tuple(f"train/{name}" for name in train.names) + tuple(f"val/{name}" for name in val.names))
        y = torch.cat([train.y, val.y])
        every = Split(files, y, torch.arange(len(y)))
        counts = [max(1, count // 5) for count in torch.bincount(val.y, minlength=len(train.class_names)).tolist()]
        rest, held = (positions + len(train.y) for positions in hold_out_of_each_class(val.y, counts, self.name))
        view = View(self.image_size, MEAN, STD, augment="resized-crop", flip=True)
        return Dataset(every[torch.arange(len(train.y))], every[held], every[rest], train.class_names, view)
