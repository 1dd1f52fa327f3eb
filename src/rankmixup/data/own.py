"""What folders and arrays of a user's own have in common: known by what they hold, not by where they lie."""

from abc import abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from rankmixup.data.base import DataSource, Images, Split
from rankmixup.data.splits import hold_out_of_each_class
from rankmixup.errors import require

__all__ = ["OwnData", "split_up"]


@dataclass(frozen=True)
class OwnData(DataSource):
    """Data of the user's own, at a path.

    `fingerprint` and `image_size` are found out where they are not given; once they are, nothing is read before `load`, which
    then insists on the same content. The path takes no part in comparisons nor in the id of a run.
    """

    path: str = field(default="", compare=False)
    """Where it lies."""
    fingerprint: str = ""
    """Hash of what it holds."""
    image_size: int = 0
    """Height and width of a network's input; 0 takes it from the images."""
    augment: Literal["none", "crop", "crop-and-flip"] = "crop-and-flip"
    """What training adds: random crops, and mirror images, which must mean the same as their originals."""

    def check(self) -> None:
        super().check()
        require(self.path != "", f"{self.name} must be followed by where it lies, as in {self.name}:PATH, got nothing")
        require(self.image_size >= 0, f"image_size must be at least 0, got {self.image_size}")
        if self.fingerprint and self.image_size:
            return
        object.__setattr__(self, "path", str(Path(self.path).expanduser().resolve()))
        fingerprint, image_size = self.probe(Path(self.path))
        object.__setattr__(self, "fingerprint", self.fingerprint or fingerprint)
        object.__setattr__(self, "image_size", self.image_size or image_size)

    @property
    def flips(self) -> bool:
        """Whether training mirrors images."""
        return self.augment == "crop-and-flip"

    @abstractmethod
    def probe(self, path: Path) -> tuple[str, int]:
        """Hash of what is at `path`, and the size of its images."""

    def require_unchanged(self, found: str) -> None:
        """Raise unless `found` is the hash of the content that this object was made for."""
        require(
            found == self.fingerprint,
            f"{self.path} must hold what it held when the run was made (fingerprint {self.fingerprint[:12]}), it has changed: {found[:12]}",
        )


def split_up(
    images: Images, y: Int[Tensor, " N"], given: dict[str, Int[Tensor, " M"]], class_names: tuple[str, ...]
) -> tuple[Split, Split, Split]:
    """Training, validation and test samples from their positions; those of a split that is not `given` are taken out of `train`.

    It gets a tenth (validation) or a fifth (test) of each class, at least one sample, always the same ones.
    """
    parts = dict(given)
    for split, share in (("test", 5), ("val", 10)):
        if split in given:
            continue
        labels = y[parts["train"]]
        counts = torch.bincount(labels, minlength=len(class_names)).tolist()
        for class_name, count in zip(class_names, counts, strict=True):
            require(count >= 2, f"class {class_name!r} must have a sample for each of train, val and test, too few are left for {split}")
        rest, held = hold_out_of_each_class(labels, [max(1, count // share) for count in counts], split)
        parts[split], parts["train"] = parts["train"][held], parts["train"][rest]
    train, val, test = (Split(images[parts[name]], y[parts[name]], parts[name]) for name in ("train", "val", "test"))
    return train, val, test
