"""A folder for each class, with its images anywhere below."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from rankmixup.data.images import image_names
from rankmixup.errors import one_line, require

__all__ = ["ClassFolders", "list_classes", "require_text"]


@dataclass(frozen=True)
class ClassFolders:
    """The images of a folder and their labels."""

    names: tuple[str, ...]
    """Paths below the folder, sorted."""
    y: Int[Tensor, " N"]
    class_names: tuple[str, ...]


def list_classes(folder: Path, class_names: tuple[str, ...] | None = None) -> ClassFolders:
    """Images by class, classes in order of their names, or those of `class_names`, which must then have a place for each."""
    require(folder.is_dir(), f"{folder} must be a folder, there is none")
    found = sorted(each.name for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))
    class_names = class_names or tuple(found)
    require_text(folder, class_names)
    require(len(class_names) >= 2, f"{folder} must hold a folder for each of at least 2 classes, got {len(class_names)}")
    label = {name: index for index, name in enumerate(class_names)}
    for name in found:
        require(name in label, f"class folder {folder / name} must be one of the training images' classes too, there is no {name!r}")
    names = image_names(folder)
    for name in names:
        require("/" in name, f"image {folder / name} must lie in the folder of its class, it lies in none")
    classes = [name.partition("/")[0] for name in names]
    filled = set(classes)
    for name in found:
        require(name in filled, f"class folder {folder / name} must hold at least one image, got 0")
    return ClassFolders(tuple(names), torch.tensor([label[name] for name in classes]), class_names)


def require_text(folder: Path, class_names: Sequence[str]) -> None:
    """Raise unless reports and tables can show the names."""
    for name in class_names:
        require(one_line(name) == name, f"class folder {folder / name} must have a name in UTF-8 without control characters")
