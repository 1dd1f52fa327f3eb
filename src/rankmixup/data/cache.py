"""What is worked out once from files and kept: decoded images beside the data or in the user's cache folder."""

import os
import secrets
import tempfile
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from rankmixup.config import content_hash
from rankmixup.data.base import ImageFiles
from rankmixup.data.images import BadImage, decode_each, fitted
from rankmixup.errors import InvalidInput

__all__ = ["fingerprint_of", "memory_mapped", "user_cache"]


def user_cache() -> Path:
    """The user's folder for what this library can make again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rankmixup"


def fingerprint_of(files: ImageFiles) -> str:
    """A hash of the names and sizes of files, wherever their folder lies."""
    return content_hash([[name, (files.folder / name).stat().st_size] for name in files.names])


def memory_mapped(files: ImageFiles, size: int) -> UInt8[Tensor, "N 3 S S"]:
    """All images, decoded on the first call into one file that is mapped into memory; changed files are decoded again."""
    name = f".rankmixup-{size}px-{fingerprint_of(files)[:16]}.npy"
    existing = [folder / name for folder in (files.folder, user_cache()) if (folder / name).is_file()]
    path = existing[0] if existing else _writable(files.folder) / name
    if not existing:
        _decode_into(path, files, size)
    try:
        # Copy-on-write: torch takes no array that cannot be written to, and nothing writes to this one.
        pixels = np.load(path, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} must be a whole file of decoded images, remove it to have them decoded again ({error})") from error
    return torch.from_numpy(pixels).permute(0, 3, 1, 2)


def _decode_into(path: Path, files: ImageFiles, size: int) -> None:
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.uint8)), "fortran_order": False, "shape": (len(files), size, size, 3)}
    try:
        with temporary.open("xb") as file:
            np.lib.format.write_array_header_2_0(file, header)
            decoded = decode_each(files, lambda image: fitted(image, size).tobytes(), f"decoding {files.folder.name}")
            for image_name, pixels in zip(files.names, decoded, strict=True):
                if isinstance(pixels, BadImage):
                    raise InvalidInput(f"image {files.folder / image_name} must be one that can be decoded ({pixels})")
                file.write(pixels)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _writable(folder: Path) -> Path:
    """`folder` if files can be made in it, else the user's cache folder."""
    tried = (folder, user_cache())
    for candidate in tried:
        try:
            candidate.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=candidate):
                return candidate
        except OSError:
            continue
    raise InvalidInput(f"{tried[0]} or {tried[1]} must be a folder that can be written to, to keep decoded images")
