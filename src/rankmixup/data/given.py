"""Data that a program gives to `rm.train` itself: arrays, tensors or data sets, identified by their content."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankmixup.config import content_hash
from rankmixup.data.arrays import require_finite
from rankmixup.data.base import Dataset, DataSource, Samples, Split, register
from rankmixup.data.labels import check_labels, class_labels
from rankmixup.data.samples import labels_of, network_input, spread
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


def given_data(data: Any, like: DataSource) -> GivenData:
    """The data set of `data`, three data sets or pairs of arrays, with the imbalance, sampling and protocol of `like`."""
    require(isinstance(like, DataSource), f"like must be a data set, got {shown(like)}")
    rule = "data must be three data sets or pairs (x, y) of arrays, for training, validation and testing"
    require(isinstance(data, tuple | list) and len(data) == 3, f"{rule}, got {shown(data)}")
    parts = [_part(name, given) for name, given in zip(_SPLITS, data, strict=True)]
    shapes = {tuple(shape) for _, _, shape, _ in parts}
    require(len(shapes) == 1, f"data must hold inputs of one shape, got {' and '.join(str(list(shape)) for shape in sorted(shapes))}")
    class_names, indices = class_labels({f"labels of {name!r}": y for name, (_, y, _, _) in zip(_SPLITS, parts, strict=True)})
    named = getattr(data[0], "classes", None)
    numbered = class_names == tuple(str(label) for label in range(len(class_names)))
    if numbered and isinstance(named, list | tuple) and len(named) == len(class_names) and all(isinstance(each, str) for each in named):
        class_names = tuple(named)
    sizes = [len(y) for y in indices]
    places = torch.arange(sum(sizes)).split(sizes)
    splits = [Split(x, y, place) for (x, _, _, _), y, place in zip(parts, indices, places, strict=True)]
    view = _view(shapes.pop())
    described = [class_names, sizes, *([digest, y.tolist()] for (_, _, _, digest), y in zip(parts, indices, strict=True))]
    source = GivenData(
        imbalance=like.imbalance,
        sampling=like.sampling,
        protocol=like.protocol,
        fingerprint=content_hash(described),
        num_classes=len(class_names),
        sizes=tuple(sizes),
        image_size=view.image_size,
    )
    object.__setattr__(source, "samples", Dataset(splits[0], splits[1], splits[2], class_names, view))
    return source


def _view(shape: tuple[int, ...]) -> View:
    """Inputs as they are: whoever makes samples normalises and augments them too."""
    square = len(shape) == 3 and shape[1] == shape[2]
    constants = (0.0,) * shape[0], (1.0,) * shape[0]
    return View(shape[1] if square else 1, *constants, values="floats", shape=() if square else shape)


def _part(name: str, given: Any) -> tuple[Tensor | Samples, NDArray[Any], tuple[int, ...], str]:
    """Inputs, labels, shape of an input and hash of the inputs of one split."""
    if isinstance(given, torch.utils.data.TensorDataset):
        given = given.tensors
    arrays = Tensor | np.ndarray
    if isinstance(given, tuple | list) and len(given) == 2 and isinstance(given[0], arrays) and not isinstance(given[1], int):
        x = network_input(f"x of {name!r}", given[0]).contiguous()
        require(x.ndim >= 2 and x.numel() > 0, f"x of {name!r} must hold samples of at least one dimension, got shape {list(x.shape)}")
        require_finite(f"x of {name!r}", x.numpy())
        return x, check_labels(f"y of {name!r}", given[1], len(x)), tuple(x.shape[1:]), _hash([x])
    sized = hasattr(given, "__len__") and hasattr(given, "__getitem__") and not isinstance(given, torch.utils.data.IterableDataset | dict)
    require(sized and not isinstance(given, str | bytes), f"{name!r} must be a data set with __len__ and __getitem__, got {shown(given)}")
    require(len(given) > 0, f"{name!r} must hold at least one sample, got none")
    known = spread(given)
    labels = labels_of(given, known)
    made = Samples(given, torch.arange(len(given)), labels)
    return made, labels.numpy(), tuple(known[0][1].shape), _hash(each for _, each, _ in _reproducible(known, spread(given)))


def _reproducible(known: list[Any], again: list[Any]) -> list[Any]:
    """The samples if they came out the same again; none if they depend on more than torch's generator."""
    return known if all(torch.equal(one[1], two[1]) for one, two in zip(known, again, strict=True)) else []


def _hash(inputs: Iterable[Tensor]) -> str:
    digest = hashlib.sha256()
    for each in inputs:
        digest.update(str(list(each.shape)).encode() + each.contiguous().numpy().tobytes())
    return digest.hexdigest()
