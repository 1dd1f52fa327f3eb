"""Tiny-ImageNet, decoded once."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from rankmixup.data.base import Dataset, DataSource, ImageFiles, View, register
from rankmixup.data.cache import memory_mapped
from rankmixup.data.class_folders import list_classes
from rankmixup.data.download import Remote, fetch_archive, require_present
from rankmixup.data.imagenet import MEAN, STD
from rankmixup.data.images import image_names
from rankmixup.data.splits import consecutive, hold_out_of_each_class
from rankmixup.errors import InvalidInput, require

__all__ = ["TinyImageNet"]


@register("tiny-imagenet")
@dataclass(frozen=True)
class TinyImageNet(DataSource):
    """Tiny-ImageNet: 110,000 images of 64x64 pixels in 200 classes, 90,000 / 10,000 / 10,000.

    A fixed tenth of each class's 500 training images is for validation; the official validation images, the only others with
    labels, are for testing. All are decoded once into a file beside them that is mapped into memory.
    """

    archive: ClassVar[Remote] = Remote("http://cs231n.stanford.edu/tiny-imagenet-200.zip", "90528d7ca1a48142e341f4ef8d21d0de")
    folder: ClassVar[str] = "tiny-imagenet-200"

    @property
    def image_size(self) -> int:
        return 64

    def download(self, root: Path) -> None:
        if not (root / self.folder).exists():
            fetch_archive(self.archive, root, self.folder)

    def read(self, root: Path) -> Dataset:
        folder = root / self.folder
        require_present(folder, self.name)
        train = list_classes(folder / "train")
        test = _annotated(folder / "val", train.class_names)
        counts = [max(1, count // 10) for count in torch.bincount(train.y).tolist()]
        rest, held = hold_out_of_each_class(train.y, counts, self.name)
        # The order of the splits is that of the file, so that each is one piece of it.
        names = [f"train/{name}" for name in train.names] + [f"val/images/{name}" for name in test]
        index = torch.cat([rest, held, torch.arange(len(train.y), len(names))])
        y = torch.cat([train.y, torch.tensor(list(test.values()))])[index]
        x = memory_mapped(ImageFiles(folder, tuple(names[i] for i in index.tolist())), self.image_size)
        view = View(self.image_size, MEAN, STD, augment="crop", flip=True)
        splits = consecutive(x, y, index, [len(rest), len(held), len(test)])
        return Dataset(*splits, _words(folder, train.class_names), view, val_from_train=True)


def _annotated(folder: Path, class_names: tuple[str, ...]) -> dict[str, int]:
    """Labels of the official validation images by name, out of val_annotations.txt."""
    path = folder / "val_annotations.txt"
    try:
        rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
        labels = {row[0]: class_names.index(row[1]) for row in rows}
    except (OSError, ValueError, IndexError) as error:
        raise InvalidInput(f"{path} must name the class of each validation image, one of the training images' ({error})") from error
    images = image_names(folder / "images")
    require(
        sorted(labels) == images, f"{path} must name every image of {folder / 'images'}, got {len(labels)} names and {len(images)} images"
    )
    return labels


def _words(folder: Path, class_names: tuple[str, ...]) -> tuple[str, ...]:
    """The first word for each class out of words.txt; the class's own name where there is none."""
    path = folder / "words.txt"
    if not path.is_file():
        return class_names
    # A byte that is no UTF-8 spoils one word, not the data set.
    lines = path.read_text("utf-8", errors="replace").splitlines()
    words = dict(line.split("\t", 1) for line in lines if "\t" in line)
    return tuple(words.get(name, name).partition(",")[0] for name in class_names)
