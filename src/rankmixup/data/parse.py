"""Data sets as a user writes them."""

from rankmixup.data.base import DataSource
from rankmixup.data.own import OwnData
from rankmixup.errors import require

__all__ = ["parse_source"]


def parse_source(text: str) -> DataSource:
    """The data set that NAME, or NAME:PATH for data of the user's own, stands for, with its fields as they come.

    >>> parse_source("digits")
    Digits(imbalance=1.0, sampling='shuffle', protocol='paper', train_size=700, noise=1.1)
    """
    name, colon, path = text.partition(":")
    kind = DataSource.registry[name]
    if issubclass(kind, OwnData):
        return kind(path=path)
    require(not colon, f"{name} must stand alone, it has no path, got {text!r}")
    return kind()
