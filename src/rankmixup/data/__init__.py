"""Data sets by name."""

from rankmixup.data.base import Dataset, DataSource, ImageFiles, Split, View, register
from rankmixup.data.digits import Digits
from rankmixup.data.pipeline import batches_per_epoch, shuffled_batches
from rankmixup.data.synthetic import Synthetic

__all__ = [
    "DataSource",
    "Dataset",
    "Digits",
    "ImageFiles",
    "Split",
    "Synthetic",
    "View",
    "batches_per_epoch",
    "register",
    "shuffled_batches",
]
