"""Data sets by name."""

from rankmixup.data.base import Dataset, DataSource, Split, register
from rankmixup.data.digits import Digits
from rankmixup.data.synthetic import Synthetic

__all__ = ["DataSource", "Dataset", "Digits", "Split", "Synthetic", "register"]
