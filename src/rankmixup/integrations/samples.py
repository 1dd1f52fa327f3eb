"""What methods need to know of the samples of someone else's training set: their positions, and how many each class has."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from torch.utils.data import Dataset

from rankmixup.errors import require
from rankmixup.ops import class_indices

INDEX = "rankmixup_index"
"""Key of the positions of a batch's samples in the training set; no argument of any model."""


class Indexed(Dataset[tuple[int, Any]]):
    """Pairs of a sample's position and the sample."""

    def __init__(self, dataset: Any):
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, place: int) -> tuple[int, Any]:
        return place, self.dataset[place]


class IndexedCollator:
    """A collator of the samples in such pairs, which puts their positions into the batch."""

    def __init__(self, collator: Callable[[list[Any]], Any]):
        self.collator = collator

    def __call__(self, pairs: list[tuple[int, Any]]) -> dict[str, Any]:
        """A batch of the samples, with their positions."""
        places, samples = zip(*pairs, strict=True)
        return {**self.collator(list(samples)), INDEX: torch.tensor(places)}


def count_classes(dataset: Any, names: Iterable[str], num_classes: int) -> Int[Tensor, " K"]:
    """Samples of each class in a data set of mappings, or with columns; labels have the first of `names` that is there."""
    columns = getattr(dataset, "column_names", None)
    found = columns if columns is not None else dataset[0] if len(dataset) > 0 else ()
    name = next((name for name in names if name in found), None)
    require(name is not None, f"a sample of the training set must hold a label as one of {list(names)}, got {list(found)}")
    labels = dataset[name] if columns is not None else [dataset[place][name] for place in range(len(dataset))]
    indices = class_indices("labels", [int(label) for label in labels], len(dataset), num_classes)
    return torch.bincount(indices, minlength=num_classes)
