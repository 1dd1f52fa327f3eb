"""What is computed once and kept: hashes of files, and decoded images, beside the data or in the user's cache folder."""

import contextlib
import json
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from numpy.typing import NDArray
from torch import Tensor

from rankmixup.config import content_hash
from rankmixup.data.base import ImageFiles
from rankmixup.data.images import BadImage, decode_each, fitted
from rankmixup.data.progress import progress
from rankmixup.errors import InvalidInput
from rankmixup.files import file_hash, read_json, readable, replacing, write_atomic

_SETTLED_NS = 2_000_000_000
"""The coarsest clock of a file system, FAT's: within this time a file may change again without a change of its times."""


def fingerprint_of(files: ImageFiles) -> str:
    """A hash of the names and contents of files, wherever their folder is."""
    return content_hash(list(zip(files.names, digests(files), strict=True)))


def digests(files: ImageFiles) -> list[str]:
    """SHA-256 of each file.

    They are kept in the user's cache folder with the sizes and times of the files; a file whose size and times are the same is
    not read again. The hash of a file that had just changed is not kept, since its times would not show another change.
    """
    cache = f"digests-{content_hash(str(files.folder.resolve()))[:16]}.json"
    entries, now = _kept(cache) or {}, time.time_ns()
    known = {name: entry for name, entry in entries.items() if isinstance(entry, list) and entry and isinstance(entry[-1], str)}
    states = {name: _state(files.folder / name) for name in files.names}
    changed = [name for name, state in states.items() if known.get(name, [])[:-1] != state]
    with ThreadPoolExecutor(os.cpu_count()) as pool, progress(f"hashing {files.folder.name}", len(changed)) as advance:
        fresh = {}
        for name, value in zip(changed, pool.map(lambda name: file_hash(files.folder / name), changed), strict=True):
            fresh[name] = value
            advance(1)
    settled = {name: [*states[name], value] for name, value in fresh.items() if max(states[name][:2]) < now - _SETTLED_NS}
    if settled:
        _keep(cache, known | settled)
    return [fresh[name] if name in fresh else known[name][-1] for name in files.names]


def _state(path: Path) -> list[int]:
    """What changes with a file: time of its content, time of its entry, which cannot be set back, size, and inode."""
    with readable(path):
        stat = path.stat()
    return [stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino]


def undecodable(files: ImageFiles) -> dict[str, str]:
    """The images that do not decode, and why; kept in the user's cache folder, since decoding all of them takes minutes."""
    cache = f"undecodable-{fingerprint_of(files)[:16]}.json"
    kept = _kept(cache)
    if kept is not None and set(kept) <= set(files.names):
        return {name: str(why) for name, why in kept.items()}
    results = decode_each(files, lambda image: None, f"checking {files.folder.name}")
    bad = {name: str(result) for name, result in zip(files.names, results, strict=True) if result is not None}
    _keep(cache, bad)
    return bad


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rankmixup"


def _kept(cache: str) -> dict[str, Any] | None:
    """Values by file name in the user's cache folder; None where there are none or they are damaged."""
    with contextlib.suppress(InvalidInput, UnicodeError):
        held = read_json(_user_cache() / cache)
        if isinstance(held, dict):
            return {os.fsdecode(name.encode("latin1")): value for name, value in held.items()}
    return None


def _keep(cache: str, values: dict[str, Any]) -> None:
    # Without a cache folder, they are computed again next time.
    with contextlib.suppress(OSError):
        _user_cache().mkdir(parents=True, exist_ok=True)
        # JSON holds text, but names of files can hold any bytes.
        named = {os.fsencode(name).decode("latin1"): value for name, value in values.items()}
        write_atomic(_user_cache() / cache, json.dumps(named).encode())


def memory_mapped(files: ImageFiles, size: int) -> UInt8[Tensor, "N 3 S S"]:
    """All images, decoded on the first call into one file that is mapped into memory; changed files are decoded again."""
    name = f".rankmixup-{size}px-{fingerprint_of(files)[:16]}.npy"
    shape = (len(files), size, size, 3)
    found = (_mapped(folder / name, shape) for folder in (files.folder, _user_cache()))
    pixels = next((each for each in found if each is not None), None)
    if pixels is None:
        path = _writable(files.folder) / name
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.uint8)), "fortran_order": False, "shape": shape}
        with replacing(path) as file:
            np.lib.format.write_array_header_2_0(file, header)
            decoded = decode_each(files, lambda image: fitted(image, size).tobytes(), f"decoding {files.folder.name}")
            for image_name, image in zip(files.names, decoded, strict=True):
                if isinstance(image, BadImage):
                    raise InvalidInput(f"image {files.folder / image_name} must be one that can be decoded ({image})")
                file.write(image)
        pixels = _mapped(path, shape)
    assert pixels is not None
    return torch.from_numpy(pixels).permute(0, 3, 1, 2)


def _mapped(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8] | None:
    """The content of the file, or None where it is missing, damaged or of another shape."""
    with contextlib.suppress(Exception):  # a damaged header fails in many ways
        # Copy-on-write: torch takes no array that cannot be written to, and nothing writes to this one.
        if path.is_file() and (pixels := np.lib.format.open_memmap(path, mode="c")).shape == shape and pixels.dtype == np.uint8:
            return pixels
    return None


def _writable(folder: Path) -> Path:
    """`folder` if files can be made in it, else the user's cache folder."""
    for candidate in (folder, _user_cache()):
        with contextlib.suppress(OSError):
            candidate.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=candidate):
                return candidate
    raise InvalidInput(f"{folder} or {_user_cache()} must be a folder that can be written to, to keep decoded images")
