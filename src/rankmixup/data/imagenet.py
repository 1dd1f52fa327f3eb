"""ImageNet, from folders that the user has, and Tiny-ImageNet, decoded once."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from rankmixup.data.base import Dataset, DataSource, ImageFiles, Split, register
from rankmixup.data.cache import memory_mapped
from rankmixup.data.download import Remote, fetch_archive, require_present
from rankmixup.data.images import image_names, list_classes
from rankmixup.data.splits import consecutive, stratified_hold_out
from rankmixup.data.view import View
from rankmixup.errors import InvalidInput, require

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet, the usual constants."""


@register("imagenet")
@dataclass(frozen=True)
class ImageNet(DataSource):
    """ImageNet: 1.28 million photos in 1,000 classes; a fifth of its 50,000 validation images is for validation, the rest for testing.

    The folder `imagenet` of the data root, or the data root itself, holds `train` and `val`, each with a folder for every class.
    """

    image_size = 224

    @classmethod
    def location(cls, root: Path) -> Path:
        return (root / "imagenet" if (root / "imagenet").is_dir() else root) / "train"

    def download(self, root: Path) -> None:
        raise InvalidInput("imagenet must be fetched by hand, as its terms of access ask for; --download cannot")

    def read(self, root: Path) -> Dataset:
        folder = self.location(root).parent
        for part in ("train", "val"):
            require((folder / part).is_dir(), f"imagenet must be in {root / 'imagenet'} with folders train and val, there is no {part}")
        train, train_y, class_names = list_classes(folder, "train")
        val, val_y, _ = list_classes(folder, "val", class_names)
        y = torch.cat([train_y, val_y])
        every = Split(ImageFiles(folder, train + val), y, torch.arange(len(y)))
        counts = [max(1, count // 5) for count in torch.bincount(val_y, minlength=len(class_names)).tolist()]
        rest, held = (positions + len(train) for positions in stratified_hold_out(val_y, counts, self.name))
        view = View(224, MEAN, STD, augment="resized-crop", flip=True)
        return Dataset(every[torch.arange(len(train))], every[held], every[rest], class_names, view)


@register("tiny-imagenet")
@dataclass(frozen=True)
class TinyImageNet(DataSource):
    """Tiny-ImageNet: 110,000 images of 64x64 pixels in 200 classes, 90,000 / 10,000 / 10,000.

    A fixed tenth of each class's 500 training images is for validation; the official validation images, the only others with
    labels, are for testing. All are decoded once into a file beside them that is mapped into memory.
    """

    image_size = 64
    archive: ClassVar[Remote] = Remote("http://cs231n.stanford.edu/tiny-imagenet-200.zip", "90528d7ca1a48142e341f4ef8d21d0de")
    folder: ClassVar[str] = "tiny-imagenet-200"

    @classmethod
    def location(cls, root: Path) -> Path:
        return root / cls.folder

    def download(self, root: Path) -> None:
        if not self.location(root).exists():
            fetch_archive(self.archive, root, self.folder)

    def read(self, root: Path) -> Dataset:
        folder = self.location(root)
        require_present(folder, self.name)
        train, train_y, classes = list_classes(folder, "train")
        test = _annotated(folder / "val", classes)
        rest, held = stratified_hold_out(train_y, [max(1, count // 10) for count in torch.bincount(train_y).tolist()], self.name)
        # The order of the splits is that of the file, so that each is one piece of it.
        names = [*train, *(f"val/images/{name}" for name in test)]
        index = torch.cat([rest, held, torch.arange(len(train), len(names))])
        y = torch.cat([train_y, torch.tensor(list(test.values()))])[index]
        x = memory_mapped(ImageFiles(folder, tuple(names[i] for i in index.tolist())), 64)
        splits = consecutive(x, y, index, [len(rest), len(held), len(test)])
        return Dataset(*splits, _words(folder, classes), View(64, MEAN, STD, augment="crop", flip=True), val_from_train=True)


def _annotated(folder: Path, class_names: tuple[str, ...]) -> dict[str, int]:
    """Labels of the official validation images by name, out of val_annotations.txt."""
    path = folder / "val_annotations.txt"
    try:
        rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
        labels = {row[0]: class_names.index(row[1]) for row in rows}
    except (OSError, ValueError, IndexError) as error:
        raise InvalidInput(f"{path} must name the class of each validation image, one of the training images' ({error})") from error
    images, count = image_names(folder / "images"), len(labels)
    require(sorted(labels) == images, f"{path} must name every image of {folder / 'images'}, got {count} names and {len(images)} images")
    return labels


def _words(folder: Path, class_names: tuple[str, ...]) -> tuple[str, ...]:
    """The first word for each class in words.txt; the name of the folder where there is none."""
    path = folder / "words.txt"
    # A byte that is not UTF-8 must spoil one word, not the data set.
    lines = path.read_text("utf-8", errors="replace").splitlines() if path.is_file() else []
    words = dict(line.split("\t", 1) for line in lines if "\t" in line)
    return tuple(words.get(name, name).partition(",")[0] for name in class_names)
