"""Files that are written whole or not at all, and read without executing anything."""

import io
import json
import math
import os
import secrets
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankmixup.errors import InvalidInput

__all__ = ["append_line", "parse_json", "read_json", "read_npz", "write_atomic", "write_json", "write_npz"]


def write_atomic(path: Path, content: bytes | memoryview) -> None:
    """Write a temporary file beside `path`, flush it to disk, and rename it over `path`; the name too is on disk on return."""
    # Not tempfile's, whose files only their owner may read: results are to be shared.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "nt":  # where a folder cannot be opened, and a renamed file needs no more
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_json(path: Path, data: Any) -> None:
    """Write indented JSON."""
    write_atomic(path, (json.dumps(data, indent=2, allow_nan=False) + "\n").encode())


def append_line(path: Path, data: Any) -> None:
    """Append one JSON line."""
    with path.open("a") as file:
        file.write(json.dumps(data, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read JSON, as `parse_json` does."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path} must be a readable JSON file ({error.strerror})") from error
    return parse_json(content, str(path))


def parse_json(content: bytes, name: str) -> Any:
    """The value of UTF-8 JSON; NaN, infinity and numbers beyond float64 are refused. `name` is what errors call it."""
    try:
        text = content.decode()
        value = json.loads(text, parse_constant=_finite, parse_float=_finite)
        if "\\ud" in text.lower():
            json.dumps(value, ensure_ascii=False).encode()  # raises for half a surrogate pair, which nothing could print
        return value
    except RecursionError:
        raise InvalidInput(f"{name} must be JSON, it is nested too deeply") from None
    except ValueError as error:
        reason = "a whole number has too many digits" if "int_max_str_digits" in str(error) else error
        raise InvalidInput(f"{name} must be JSON ({reason})") from None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"numbers must be finite, got {text[:40]}")
    return number


def write_npz(path: Path, **arrays: NDArray[Any]) -> None:
    """Write a compressed npz."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    write_atomic(path, buffer.getvalue())


def read_npz(path: Path, *required: str, optional: tuple[str, ...] = ()) -> dict[str, NDArray[Any]]:
    """Arrays of an npz by name; pickled objects are refused, not loaded."""
    if not path.is_file():
        raise InvalidInput(f"{path} must be an npz file, there is no such file")
    # numpy would try anything that is not a zip as one of its other formats, pickle among them.
    if not zipfile.is_zipfile(path):
        raise InvalidInput(f"{path} must be an npz file, it is of another kind or cut short")
    try:
        with np.load(path, allow_pickle=False) as archive:
            held = archive.files
            arrays = {name: archive[name] for name in (*required, *optional) if name in held}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, NotImplementedError) as error:
        reason = "it holds pickled objects, which are never loaded" if "pickle" in str(error).lower() else f"it cannot be read ({error})"
        raise InvalidInput(f"{path} must be an npz file of plain arrays; {reason}") from error
    for name in required:
        if name not in arrays:
            raise InvalidInput(f"{path} must hold an array {name!r}, it holds {', '.join(map(repr, held)) or 'nothing'}")
    for name, array in arrays.items():
        # numpy hands over a member that is not in its format as raw bytes.
        if not isinstance(array, np.ndarray):
            raise InvalidInput(f"{path} must be an npz file of plain arrays; {name!r} is none")
    return arrays
