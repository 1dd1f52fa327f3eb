"""What a data set is to the rest: three splits in memory, and where each sample came from."""

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankmixup.config import Configured, content_hash
from rankmixup.errors import require
from rankmixup.registry import Registry

__all__ = ["DataSource", "Dataset", "Split", "register"]

_registry: "Registry[type[DataSource]]" = Registry("data set", "rankmixup.data")
register = _registry.register


@dataclass(frozen=True)
class Split:
    """Samples of one split."""

    x: Float[Tensor, "N C H W"]
    y: Int[Tensor, " N"]
    source: Int[Tensor, " N"]
    """Position of each sample in the set that the splits were cut from."""

    def __post_init__(self) -> None:
        require(len(self.x) == len(self.y) == len(self.source) > 0, f"a split must hold at least one labelled sample, got {len(self.x)}")

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class Dataset:
    """Training, validation and test samples of one task."""

    train: Split
    val: Split
    test: Split
    class_names: tuple[str, ...]

    @property
    def num_classes(self) -> int:
        """Number of classes K."""
        return len(self.class_names)

    @property
    def image_size(self) -> int:
        """Height and width."""
        return self.train.x.shape[-1]

    @property
    def in_channels(self) -> int:
        """Number of colour channels."""
        return self.train.x.shape[1]

    @property
    def class_counts(self) -> Int[Tensor, " K"]:
        """Training samples of each class."""
        return torch.bincount(self.train.y, minlength=self.num_classes)

    def manifest(self) -> dict[str, Any]:
        """Which samples are in which split, with a hash of each list."""
        positions = {name: getattr(self, name).source.tolist() for name in ("train", "val", "test")}
        return {name: {"size": len(where), "sha256": content_hash(where), "source": where} for name, where in positions.items()}


@dataclass(frozen=True)
class DataSource(Configured):
    """A data set by name and settings, not yet loaded."""

    registry = _registry

    imbalance: float = 1.0
    """Training samples of the most frequent class over those of the rarest; above 1 the classes form a long tail."""

    def check(self) -> None:
        require(self.imbalance >= 1, f"imbalance must be at least 1, got {self.imbalance}")

    def load(self, root: Path | None = None) -> Dataset:
        """The splits; `root` is the folder where data sets live on disk, for those that do."""
        from rankmixup.data.longtail import long_tailed

        dataset = self.read(root)
        return dataset if self.imbalance == 1 else long_tailed(dataset, self.imbalance)

    @abstractmethod
    def read(self, root: Path | None) -> Dataset:
        """The splits with their classes as they come."""
