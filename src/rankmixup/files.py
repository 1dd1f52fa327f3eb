"""Files that are written whole or not at all, and read without executing anything."""

import contextlib
import functools
import hashlib
import io
import json
import math
import os
import secrets
import signal
import sys
import threading
import types
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from rankmixup.errors import Interrupted, InvalidInput, listed, one_line, require

_GIB = 1 << 30
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_MOST_COMPRESSED = 20
"""How many times its own size a file may unpack to, however large it is."""


@contextlib.contextmanager
def removable() -> Iterator[None]:
    """Raise `Interrupted` at SIGTERM, which else ends Python at once, so that what is half written is removed.

    Only the main thread may handle signals, and a handler that is there already is left in place.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def stop(number: int, frame: types.FrameType | None) -> None:
        raise Interrupted("stopped by SIGTERM", 128 + number)

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A temporary file beside `path`, renamed to `path` once it is complete and on disk, and removed if writing fails."""
    # Not tempfile's, whose files only their owner may read: results are to be shared.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with removable():
        try:
            with temporary.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    if os.name != "nt":  # where a folder cannot be opened, and a renamed file needs no more
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_atomic(path: Path, content: bytes | memoryview) -> None:
    """Write `content` to `path`, all of it or, where that fails, nothing."""
    with replacing(path) as file:
        file.write(content)


def write_json(path: Path, data: Any) -> None:
    """Write indented JSON."""
    write_atomic(path, (json.dumps(data, indent=2, allow_nan=False) + "\n").encode())


def append_line(path: Path, data: Any) -> None:
    """Append one JSON line."""
    with path.open("a") as file:
        file.write(json.dumps(data, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read JSON, as `parse_json` does."""
    with readable(path, "a JSON file"):
        content = path.read_bytes()
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
        why = "a whole number has too many digits" if "int_max_str_digits" in str(error) else reason(error)
        raise InvalidInput(f"{name} must be JSON ({why})") from None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"numbers must be finite, got {text[:40]}")
    return number


@contextlib.contextmanager
def readable(path: Path, kind: str = "a file", errors: type[Exception] | tuple[type[Exception], ...] = OSError) -> Iterator[None]:
    """Raise `InvalidInput` for `errors` that reading the file at `path` leads to; a damaged file can lead a decoder to any."""
    try:
        yield
    except InvalidInput:
        raise
    except errors as error:
        raise InvalidInput(f"{path} must be {kind}, it cannot be read ({reason(error)})") from error


def file_hash(path: Path, kind: Literal["sha256", "md5"] = "sha256") -> str:
    """Hexadecimal hash of the content of a file."""
    with readable(path), path.open("rb") as file:
        return hashlib.file_digest(file, functools.partial(hashlib.new, kind, usedforsecurity=False)).hexdigest()


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
    available = available_memory()
    require(unpacked_bytes <= available, f"{size} the memory that is available, {available / _GIB:.4g} GiB")


def available_memory() -> int:
    """Bytes that can be taken without swapping, where the system tells."""
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError, IndexError):
        return sys.maxsize


def write_npz(path: Path, **arrays: NDArray[Any]) -> None:
    """Write a compressed npz."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    write_atomic(path, buffer.getvalue())


def read_npz(path: Path, *required: str, optional: tuple[str, ...] = (), content: bool = True) -> dict[str, NDArray[Any]]:
    """Arrays of an npz by name; pickled objects are refused, not loaded, and so is what `require_fits` refuses.

    Without their `content` they have the shape and type that their headers say, and take no memory.
    """
    require(path.is_file(), f"{path} must be an npz file, there is no such file")
    require(zipfile.is_zipfile(path), f"{path} must be an npz file, it is of another kind or cut short")
    with readable(path, "an npz file of plain arrays", Exception), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        held = [member.filename.removesuffix(".npy") for member in members]
        wanted = {name: member for name, member in zip(held, members, strict=True) if name in (*required, *optional)}
        for name in wanted:
            require(held.count(name) == 1, f"{path} must hold each array once, it holds {name!r} {held.count(name)} times")
        names = listed([repr(name[:50]) for name in held], 10)
        for name in required:
            require(name in wanted, f"{path} must hold an array {name!r}, it holds {names or 'nothing'}")
        require_fits(path, sum(member.file_size for member in wanted.values()))
        return {name: _read_member(archive, wanted[name], content) for name in (*required, *optional) if name in wanted}


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, content: bool) -> NDArray[Any]:
    """One array, for which no more memory is taken than the directory of the archive says."""
    where = f"{archive.filename} must be an npz file of plain arrays, {member.filename!r}"
    # With numpy's kinds of compression, zipfile unpacks only as much as is asked for; with others it unpacks more.
    require(member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED), f"{where} is compressed in a way that numpy does not use")
    with archive.open(member) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's parser and numpy have remarks on odd headers
        read_header = _HEADERS.get(np.lib.format.read_magic(file))
        require(read_header is not None, f"{where} has a header of a version that plain arrays do not need")
        shape, _, dtype = read_header(file)  # type: ignore[misc]
        require(not dtype.hasobject, f"{where} holds pickled objects, which are never loaded")
        # Elements without a size would cost nothing here and memory later.
        size = math.prod(shape) * max(1, dtype.itemsize)
        require(size == member.file_size - file.tell(), f"{where} is of another size than its header says")
        if not content:
            return np.broadcast_to(np.zeros((), dtype), shape)
        file.seek(0)
        array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
        return array


def read_pt(path: Path) -> Any:
    """Tensors and plain values that torch.save wrote; other objects are refused, not loaded, and so is what `require_fits` refuses."""
    import torch  # here, since most commands need none of it

    verified = _verified_pt(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about how files were saved
        try:
            return torch.load(verified, map_location="cpu", weights_only=True)
        except Exception as error:
            if "weights_only" in str(error) or "Unsupported" in str(error):
                raise InvalidInput(f"{path} must be a whole pt file of plain tensors; other objects are never loaded") from error
            raise


def _verified_pt(path: Path) -> io.BytesIO:
    """A copy of the archive whose checksums were verified; refuses a file that is damaged or unpacks to too much.

    torch verifies no checksums, and trusts flags in the archive's directory that no checksum covers: if one of them turns a tensor into
    a folder, torch returns uninitialised memory.
    """
    hint = "older files are never loaded, save it again with torch.save(torch.load(path, weights_only=True), path)"
    require(zipfile.is_zipfile(path), f"{path} must be a zip file, as torch.save has written since torch 1.6; {hint}")
    verified = io.BytesIO()
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(verified, "w") as copy:
        require_fits(path, sum(member.file_size for member in archive.infolist()))
        for member in archive.infolist():
            content = archive.read(member)
            # torch unpickles a bytearray of any size from a few bytes.
            bomb = member.filename.endswith(".pkl") and b"bytearray" in content
            require(not bomb, f"{path} must be a pt file of plain tensors; it holds a bytearray, which is never loaded")
            copy.writestr(member.filename, content)
    verified.seek(0)
    return verified


def reason(error: Exception) -> str:
    """What an error of another library says, short enough for a sentence."""
    first = next(iter(str(error).splitlines()), "").strip().rstrip(".")
    return one_line(first)[:200] or type(error).__name__
