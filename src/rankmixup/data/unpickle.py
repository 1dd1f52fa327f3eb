"""Pickles of plain data, read without running anything that they name."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rankmixup.errors import InvalidInput

__all__ = ["read_pickle"]


def read_pickle(path: Path) -> Any:
    """Numbers, bytes, lists, dicts and arrays of numbers from a pickle, with strings of Python 2 as bytes; all else is refused."""
    try:
        with path.open("rb") as file:
            return _PlainUnpickler(file, encoding="bytes").load()
    except InvalidInput as error:
        raise InvalidInput(f"{path} must hold plain data, {error}") from None
    # A damaged pickle fails in as many ways as there are instructions in it.
    except Exception as error:
        raise InvalidInput(f"{path} must be a whole pickle of plain data, it cannot be read ({error})") from error


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise InvalidInput(f"it names {module}.{name}, which is not run") from None


def _dtype(description: Any, *_: Any) -> np.dtype[Any]:
    """The data type of an array of numbers; the flags behind it are ones that numpy no longer takes and that change nothing."""
    # A copy, since what follows in the pickle sets its byte order, and numpy's own must stay as it is.
    dtype = np.dtype(description, copy=True)
    if dtype.kind not in "biuf":
        raise InvalidInput(f"it holds an array of {dtype}, not of numbers")
    return dtype


_reconstruct = np.empty(0).__reduce__()[0]
_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): _dtype,
}
