"""Decoded images, kept beside the data or in the user's cache folder under a name that follows from the content of the files."""

import os
import secrets
import tempfile
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from numpy.typing import NDArray
from torch import Tensor

from rankmixup.data.base import ImageFiles
from rankmixup.data.digests import fingerprint_of, user_cache
from rankmixup.data.images import BadImage, decode_each, fitted
from rankmixup.errors import InvalidInput

__all__ = ["memory_mapped"]


def memory_mapped(files: ImageFiles, size: int) -> UInt8[Tensor, "N 3 S S"]:
    """All images, decoded on the first call into one file that is mapped into memory; changed files are decoded again."""
    name = f".rankmixup-{size}px-{fingerprint_of(files)[:16]}.npy"
    shape = (len(files), size, size, 3)
    pixels = _mapped(files.folder / name, shape)
    if pixels is None:
        pixels = _mapped(user_cache() / name, shape)
    if pixels is None:
        path = _writable(files.folder) / name
        _decode_into(path, files, shape)
        pixels = _mapped(path, shape)
    assert pixels is not None
    return torch.from_numpy(pixels).permute(0, 3, 1, 2)


def _mapped(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8] | None:
    """What is in the file, or None where it is missing, damaged or another's."""
    if not path.is_file():
        return None
    try:
        # Copy-on-write: torch takes no array that cannot be written to, and nothing writes to this one.
        pixels = np.lib.format.open_memmap(path, mode="c")
    # A damaged header fails in many ways.
    except Exception:
        return None
    return pixels if pixels.shape == shape and pixels.dtype == np.uint8 else None


def _decode_into(path: Path, files: ImageFiles, shape: tuple[int, int, int, int]) -> None:
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.uint8)), "fortran_order": False, "shape": shape}
    size = shape[1]
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
