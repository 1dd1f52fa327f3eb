"""Pickles of plain data, read without running anything that they refer to."""

import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankmixup.errors import InvalidInput, require
from rankmixup.files import reason


def read_pickle(path: Path) -> dict[bytes, Any]:
    """The dictionary in a pickle of Python 2: small integers, bytes, lists, and arrays of bytes; all else is refused."""
    try:
        with path.open("rb") as file:
            content = _PlainUnpickler(file, encoding="bytes").load()
            require(isinstance(content, dict), f"it holds no dictionary but {type(content).__name__}")
    # A damaged pickle fails in as many ways as there are instructions in it.
    except Exception as error:
        why = str(error) if isinstance(error, InvalidInput) else f"it cannot be read ({reason(error)})"
        raise InvalidInput(f"{path} must hold plain data, {why}") from error
    return {key: value.values if isinstance(value, _Array) else value for key, value in content.items()}


class _Array:
    """Stands for numpy's array, which a pickle makes empty and then fills."""

    def __init__(self, *_: Any) -> None:
        self.values: NDArray[np.uint8] | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran_order, content = state
        require(isinstance(dtype, _Byte) and isinstance(content, bytes) and not fortran_order, "it holds an array that is not of bytes")
        plain = isinstance(shape, tuple) and all(type(length) is int and length >= 0 for length in shape)
        require(plain and math.prod(shape) == len(content), f"it holds an array of another shape than that of its {len(content)} bytes")
        self.values = np.frombuffer(content, np.uint8).reshape(shape)


class _Byte:
    """Stands for numpy's type of bytes."""

    def __init__(self, description: Any, *_: Any) -> None:
        require(description == b"u1", "it holds an array that is not of bytes")

    def __setstate__(self, state: Any) -> None:
        """Nothing: the rest says in which order the bytes of a number come."""


_STAND_INS: dict[str, Any] = {"numpy.core.multiarray _reconstruct": _Array, "numpy ndarray": None, "numpy dtype": _Byte}


class _Instructions(dict[int, Callable[[Any], None]]):
    def __missing__(self, code: int) -> Callable[[Any], None]:
        raise InvalidInput(f"it has the instruction {chr(code)!r}, which plain data of Python 2 does not need")


def _with_keys_of_bytes(code: int, keys: slice) -> Callable[[Any], None]:
    """The instruction that adds items to a dictionary, `keys` being where on the stack their keys are."""

    def load(unpickler: Any) -> None:
        # A tuple of one tuple twice, that of another twice, and so on, takes forever to hash.
        require(all(isinstance(key, bytes) for key in unpickler.stack[keys]), "it has a dictionary with keys that are not bytes")
        pickle._Unpickler.dispatch[code](unpickler)

    return load


class _PlainUnpickler(pickle._Unpickler):
    """Python's own unpickler in Python, which, unlike the one in C, allocates no memory because of a number in the file."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = _Instructions(
        {
            code[0]: pickle._Unpickler.dispatch[code[0]]
            for code in (
                *(pickle.PROTO, pickle.STOP, pickle.MARK, pickle.BINPUT, pickle.LONG_BINPUT, pickle.BINGET, pickle.LONG_BINGET),
                *(pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.BININT, pickle.BININT1, pickle.BININT2),
                *(pickle.BINSTRING, pickle.SHORT_BINSTRING, pickle.EMPTY_TUPLE, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3),
                *(pickle.EMPTY_LIST, pickle.APPEND, pickle.APPENDS, pickle.EMPTY_DICT, pickle.GLOBAL, pickle.REDUCE, pickle.BUILD),
            )
        }
    )
    dispatch[pickle.SETITEM[0]] = _with_keys_of_bytes(pickle.SETITEM[0], slice(-2, -1))
    dispatch[pickle.SETITEMS[0]] = _with_keys_of_bytes(pickle.SETITEMS[0], slice(None, None, 2))

    def find_class(self, module: str, name: str) -> Any:
        require(f"{module} {name}" in _STAND_INS, f"it names {module[:50]}.{name[:50]}, which is not run")
        return _STAND_INS[f"{module} {name}"]
