"""Data that a program gives to `rm.train` itself: arrays, tensors or data sets, identified by their content."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankmixup.config import added_field, content_hash
from rankmixup.data.arrays import require_finite
from rankmixup.data.base import Dataset, DataSource, Samples, Split, register
from rankmixup.data.labels import check_labels, class_labels
from rankmixup.data.samples import hash_of, labels_of, network_input, spread
from rankmixup.data.view import View
from rankmixup.errors import InvalidInput, require, shown

_SPLITS = ("train", "val", "test")
_HOW = "rm.train(run, data=(train, val, test)), with model= too where the run has a module of your own"


@register("own")
@dataclass(frozen=True)
class GivenData(DataSource):
    """Data sets or arrays of your own, which a program gives to `rm.train` as data=(train, val, test)."""

    fingerprint: str = ""
    """Hash of the content."""
    num_classes: int = 0
    """Number of classes."""
    sizes: tuple[int, ...] = ()
    """Training, validation and test samples."""
    image_size: int = 0
    """Height and width of images; 1 for inputs of another shape."""
    known_as: str = added_field("")
    """The name that the program gave, which tells these data from others where their content does not."""
    whole: ClassVar[bool] = True
    """Whether the fingerprint is one of all inputs; else of 64 of each split."""
    samples: ClassVar[Dataset | None] = None
    """The samples, which only the process that was given them has."""

    def check(self) -> None:
        super().check()
        require(self.fingerprint != "", f"data 'own' must be given to {_HOW}, got only its name")

    def read(self, root: Path) -> Dataset:
        if self.samples is None:
            raise InvalidInput(f"data 'own' must be given again, to {_HOW}: run.json holds only their fingerprint, {self.fingerprint[:12]}")
        return self.samples

    def read_outline(self, root: Path) -> Dataset | None:
        return self.samples


def given_data(data: Any, like: DataSource, known_as: str = "") -> GivenData:
    """The data set of `data`, three data sets or pairs of arrays, with the imbalance, sampling and protocol of `like`.

    Where samples are not the same when they are made again, `known_as`, tells the data from others.
    """
    require(isinstance(like, DataSource), f"like must be a data set, got {shown(like)}")
    rule = "data must be three data sets or pairs (x, y) of arrays, for training, validation and testing"
    require(isinstance(data, tuple | list) and len(data) == 3, f"{rule}, got {shown(data)}")
    parts = [_part(name, given, known_as) for name, given in zip(_SPLITS, data, strict=True)]
    shapes = {part.shape for part in parts}
    require(len(shapes) == 1, f"data must hold inputs of one shape, got {' and '.join(str(list(shape)) for shape in sorted(shapes))}")
    class_names, indices = class_labels({f"labels of {name!r}": part.y for name, part in zip(_SPLITS, parts, strict=True)})
    named = getattr(data[0], "classes", None)
    numbered = class_names == tuple(str(label) for label in range(len(class_names)))
    if numbered and isinstance(named, list | tuple) and len(named) == len(class_names) and all(isinstance(each, str) for each in named):
        class_names = tuple(named)
    sizes = [len(y) for y in indices]
    places = torch.arange(sum(sizes)).split(sizes)
    splits = [Split(part.x, y, place) for part, y, place in zip(parts, indices, places, strict=True)]
    view = _view(shapes.pop())
    described = [class_names, sizes, *([part.digest, y.tolist()] for part, y in zip(parts, indices, strict=True))]
    source = GivenData(
        imbalance=like.imbalance,
        sampling=like.sampling,
        protocol=like.protocol,
        fingerprint=content_hash(described),
        num_classes=len(class_names),
        sizes=tuple(sizes),
        image_size=view.image_size,
        known_as=known_as,
    )
    object.__setattr__(source, "whole", all(part.whole for part in parts))
    object.__setattr__(source, "samples", Dataset(splits[0], splits[1], splits[2], class_names, view))
    return source


def _view(shape: tuple[int, ...]) -> View:
    """Inputs as they are: whoever makes samples normalises and augments them too."""
    square = len(shape) == 3 and shape[1] == shape[2]
    constants = (0.0,) * shape[0], (1.0,) * shape[0]
    return View(shape[1] if square else 1, *constants, values="floats", shape=() if square else shape)


@dataclass(frozen=True)
class _Part:
    """One split."""

    x: Tensor | Samples
    y: NDArray[Any]
    shape: tuple[int, ...]
    """Of an input."""
    digest: str
    whole: bool = True
    """Whether the hash is one of all inputs."""


def _part(name: str, given: Any, known_as: str) -> _Part:
    if isinstance(given, torch.utils.data.TensorDataset):
        given = given.tensors
    arrays = Tensor | np.ndarray
    if isinstance(given, tuple | list) and len(given) == 2 and isinstance(given[0], arrays) and not isinstance(given[1], int):
        x = network_input(f"x of {name!r}", given[0]).contiguous()
        require(x.ndim >= 2 and x.numel() > 0, f"x of {name!r} must hold samples of at least one dimension, got shape {list(x.shape)}")
        require_finite(f"x of {name!r}", x.numpy())
        return _Part(x, check_labels(f"y of {name!r}", given[1], len(x)), tuple(x.shape[1:]), hash_of([x]))
    sized = hasattr(given, "__len__") and hasattr(given, "__getitem__") and not isinstance(given, torch.utils.data.IterableDataset | dict)
    require(sized and not isinstance(given, str | bytes), f"{name!r} must be a data set with __len__ and __getitem__, got {shown(given)}")
    require(len(given) > 0, f"{name!r} must hold at least one sample, got none")
    known = spread(given)
    same = all(torch.equal(one[1], two[1]) for one, two in zip(known, spread(given), strict=True))
    rule = f"{name!r} must have samples that are the same when they are made again (draw from torch's generator, which is seeded)"
    again = "or rm.train a name= for the data, and another one whenever they change: nothing else tells them from others of the same labels"
    require(same or known_as != "", f"{rule}, {again}")
    labels, digest, whole = labels_of(given, known)
    made = Samples(given, torch.arange(len(given)), labels)
    return _Part(made, labels.numpy(), tuple(known[0][1].shape), digest if same else "", whole)
