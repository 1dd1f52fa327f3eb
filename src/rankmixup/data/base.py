"""What a data set is to the rest of the library: three splits, how images become a network's input, and each sample's position."""

import dataclasses
import os
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from rankmixup.config import Configured, content_hash
from rankmixup.data.view import View
from rankmixup.errors import InvalidInput, require
from rankmixup.registry import Registry

_registry: "Registry[type[DataSource]]" = Registry("data set", "rankmixup.data")
register = _registry.register


@dataclass(frozen=True)
class ImageFiles:
    """Images that stay on disk and are decoded when they are needed."""

    folder: Path
    names: tuple[str, ...]
    """Paths below `folder`."""

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, where: Int[Tensor, " M"]) -> "ImageFiles":
        return ImageFiles(self.folder, tuple(self.names[i] for i in where.tolist()))


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples of a user's own data set, which are made one at a time, when they are needed."""

    dataset: Any
    """Has `__len__` and `__getitem__`, which returns an input and its label."""
    where: Int[Tensor, " N"]
    """Positions in `dataset`."""
    labels: Int[Tensor, " N"]
    """The labels that it gives."""

    def __len__(self) -> int:
        return len(self.where)

    def __getitem__(self, where: Int[Tensor, " M"]) -> "Samples":
        return Samples(self.dataset, self.where[where], self.labels[where])


Images = Tensor | ImageFiles | Samples
"""Bytes [N, C, H, W] in memory or memory-mapped, floats [N, ...] in memory, files, or samples of a data set of the user's own."""


@dataclass(frozen=True)
class Split:
    """Samples of one split."""

    x: Images
    y: Int[Tensor, " N"]
    index: Int[Tensor, " N"]
    """Position of each sample in the data set that the splits are taken from."""

    def __post_init__(self) -> None:
        require(len(self.x) == len(self.y) == len(self.index) > 0, f"a split must hold at least one labelled sample, got {len(self.x)}")

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, where: Int[Tensor, " M"]) -> "Split":
        return Split(self.x[where], self.y[where], self.index[where])

    def to(self, device: torch.device) -> "Split":
        """The same samples, with images that are in memory on `device`."""
        # Not in float64, which some devices do not have: a batch is moved when it has been normalised.
        stays = not isinstance(self.x, Tensor) or self.x.dtype == torch.float64
        return self if stays else dataclasses.replace(self, x=self.x.to(device))  # type: ignore[union-attr]


@dataclass(frozen=True)
class Dataset:
    """Training, validation and test samples of one task."""

    train: Split
    val: Split
    test: Split
    class_names: tuple[str, ...]
    view: View
    published_counts: tuple[int, ...] | None = None
    """Of a long-tailed set: training samples of each class before validation samples were taken from them."""
    val_from_train: bool = False
    """Whether validation samples are part of the published training set; a long tail is then cut before they are taken."""
    tuning: Split | None = None
    """Validation samples that are kept apart for fields of a method that feedback sets, if any are."""

    def __post_init__(self) -> None:
        x = self.train.x
        if isinstance(x, ImageFiles):
            kind, possible = "in files", ["none", "resized-crop"]
        elif isinstance(x, Samples):
            kind, possible = "that a data set makes", ["none"]
        else:
            kind, possible = f"of {x.dtype}", ["none"] if x.is_floating_point() else ["none", "crop"]
        require(self.view.augment in possible, f"augment of images {kind} must be {' or '.join(possible)}, got {self.view.augment!r}")

    @property
    def num_classes(self) -> int:
        """Number of classes K."""
        return len(self.class_names)

    @property
    def class_counts(self) -> Int[Tensor, " K"]:
        """Training samples of each class."""
        return torch.bincount(self.train.y, minlength=self.num_classes)

    def manifest(self) -> dict[str, Any]:
        """Positions of the samples of each split with a hash of them, number of samples per class, and the view."""
        splits = {"train": self.train, "val": self.val, "test": self.test} | ({} if self.tuning is None else {"tuning": self.tuning})
        positions = {name: split.index.tolist() for name, split in splits.items()}
        return {
            **{name: {"size": len(where), "sha256": content_hash(where), "source": where} for name, where in positions.items()},
            "class_names": list(self.class_names),
            "class_counts": self.class_counts.tolist(),
            "published_counts": self.published_counts and list(self.published_counts),
            "view": dataclasses.asdict(self.view),
        }


@dataclass(frozen=True)
class DataSource(Configured):
    """A data set by name and settings, not yet loaded."""

    registry = _registry

    imbalance: float = 1.0
    """Training samples of the most frequent class over those of the rarest; above 1 the classes form a long tail."""
    sampling: Literal["shuffle", "class-balanced"] = "shuffle"
    """Each training sample once in an epoch, or classes in turn with four samples of each, as the paper's release does for long tails."""
    protocol: Literal["paper", "release"] = "paper"
    """Selection and temperature on validation samples; or what the paper's release did, where that differs: on test samples."""

    def check(self) -> None:
        require(self.imbalance >= 1, f"imbalance must be at least 1, got {self.imbalance}")

    @property
    @abstractmethod
    def image_size(self) -> int:
        """Height and width of a network's input, known without loading anything: the variant of a network depends on it."""

    def load(self, root: Path | None = None, *, download: bool = False) -> Dataset:
        """Read the data set.

        Args:
            root: folder with the data sets on disk; by default the environment variable RANKMIXUP_DATA, or else `data`.
            download: whether to fetch files that are missing.

        Returns:
            The splits, long-tailed where `imbalance` is above 1.
        """
        root = resolve_root(root)
        if download:
            self.download(root)
        return self._cut(self.read(root))

    @classmethod
    def location(cls, root: Path) -> Path | None:
        """The file or folder below `root` that holds the data set; None for a data set that is not looked for there."""
        return None

    def download(self, root: Path) -> None:
        """Fetch the files that are missing below `root`."""

    @abstractmethod
    def read(self, root: Path) -> Dataset:
        """The splits, before a long tail is cut."""

    def labelled(self, root: Path | None = None, *, download: bool = False) -> tuple[Split, tuple[str, ...]]:
        """Labelled samples that a network of any data set is evaluated on, and their class names: the test samples."""
        dataset = self.load(root, download=download)
        return dataset.test, dataset.class_names

    def outline(self, root: Path | None = None) -> Dataset | None:
        """What `load` would give, but with images that have a shape and no content; None where that takes long or the data are missing."""
        dataset = self.read_outline(resolve_root(root))
        return None if dataset is None else self._cut(dataset)

    def read_outline(self, root: Path) -> Dataset | None:
        """What `read` would give, with images on torch's meta device; None where that takes long or the data are missing."""
        return None

    def _cut(self, dataset: Dataset) -> Dataset:
        from rankmixup.data.splits import long_tailed

        return dataset if self.imbalance == 1 else long_tailed(dataset, self.imbalance, self.protocol)

    def outside(self, root: Path | None = None) -> tuple[Split, tuple[str, ...]]:
        """Samples that test whether a network of another data set detects out-of-distribution input, and their class names."""
        dataset = self.read(resolve_root(root))
        return dataset.test, dataset.class_names


def resolve_root(root: Path | None) -> Path:
    """The folder with data sets on disk: `root`, else the environment variable RANKMIXUP_DATA, else `data`."""
    return Path(os.environ.get("RANKMIXUP_DATA") or "data") if root is None else root


def parse_source(text: str) -> DataSource:
    """The data set that NAME describes, or NAME:PATH for a data set with a field `path`, with defaults for its other fields.

    >>> parse_source("digits")
    Digits(imbalance=1.0, sampling='shuffle', protocol='paper', train_size=700, noise=0.9)
    """
    name, colon, path = text.partition(":")
    if name not in DataSource.registry and (Path(text).is_dir() or text.endswith(".npz")):
        raise InvalidInput(
            f"data must be a name or folder:PATH or npz:PATH, did you mean {'folder' if Path(text).is_dir() else 'npz'}:{text}?"
        )
    if "path" in {field.name for field in dataclasses.fields(DataSource.registry[name])}:
        return DataSource.from_dict({"name": name, "path": path})
    require(not colon, f"{name} must be given without a path, got {text!r}")
    return DataSource.from_dict({"name": name})
