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

from rankmixup.errors import InvalidInput, require

__all__ = ["append_line", "read_json", "read_npz", "require_fits", "write_atomic", "write_json", "write_npz"]

_GIB = 1 << 30
_MOST_COMPRESSED = 20
"""How many times its own size a file may unpack to, however large it is."""


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
    """Read JSON."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} must be a readable JSON file ({error})") from error


def require_fits(path: Path, unpacked_bytes: int) -> None:
    """Raise unless what the file at `path` unpacks to is small enough to be read into memory.

    It may be at most 1 GiB or 20 times the size of the file, whichever is larger, or as much as the environment variable
    RANKMIXUP_MAX_GIB says instead; never more than the memory that is available.
    """
    setting = os.environ.get("RANKMIXUP_MAX_GIB")
    if setting is None:
        allowed: float = max(_GIB, _MOST_COMPRESSED * path.stat().st_size)
    else:
        try:
            gib = float(setting)
        except ValueError:
            gib = math.nan
        require(0 < gib < math.inf, f"RANKMIXUP_MAX_GIB (--max-gib) must be a positive number, got {setting!r}")
        allowed = gib * _GIB
    # A header can promise more than a float can hold.
    size = f"{path} unpacks to {min(unpacked_bytes, 1 << 100) / _GIB:.4g} GiB, which must be at most"
    require(unpacked_bytes <= allowed, f"{size} {allowed / _GIB:.4g} GiB; allow more with --max-gib or RANKMIXUP_MAX_GIB")
    available = _available_memory()
    require(unpacked_bytes <= available, f"{size} the memory that is available, {available / _GIB:.4g} GiB")


def _available_memory() -> int:
    """Bytes that can be taken without swapping, where the system tells; otherwise all the memory of the machine."""
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError, IndexError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


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
