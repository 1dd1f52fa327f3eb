"""Image files of any kind as bytes of red, green and blue."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from rankmixup.data.base import ImageFiles
from rankmixup.data.progress import progress
from rankmixup.errors import InvalidInput, require
from rankmixup.files import reason

__all__ = ["BadImage", "decode_each", "fitted", "image_names", "read_rgb"]

Decoded = TypeVar("Decoded")

_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
_CHUNK = 256


class BadImage(Exception):
    """A file does not decode as an image; the message says why."""


def image_names(folder: Path) -> list[str]:
    """Image files anywhere below `folder`, as sorted paths relative to it; hidden ones are not seen.

    Links to files are followed. Links to folders, which may lead in circles, and what is neither file nor folder are refused.
    """
    names: list[str] = []
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        try:
            with os.scandir(folder / inside) as entries:
                seen = [(inside + entry.name, _is_folder(entry)) for entry in entries if not entry.name.startswith(".")]
        except OSError as error:
            raise InvalidInput(f"{folder / inside} must be a folder that can be read ({reason(error)})") from error
        waiting += [f"{name}/" for name, is_folder in seen if is_folder]
        names += [name for name, is_folder in seen if not is_folder and name.lower().endswith(_SUFFIXES)]
    return sorted(names)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder or a file; raises for anything else."""
    if entry.is_dir(follow_symlinks=False):
        return True
    require(
        # Not the entry's own way to follow links, which raises for those in a circle.
        entry.is_file(follow_symlinks=False) or Path(entry.path).is_file(),
        f"{entry.path} must be a file, a link to a file or a folder; links to folders, broken links, pipes and devices are refused",
    )
    return False


def read_rgb(path: Path) -> Image.Image:
    """The image in RGB: greyscale repeated, transparent pixels over black, 16 bits scaled to 8.

    As in torchvision, a note in the file about how the camera was held is not followed.
    """
    try:
        with Image.open(path) as image:
            return _rgb(image)
    except BadImage:
        raise
    # Decoders raise whatever a damaged file leads them to.
    except Exception as error:
        raise BadImage(str(error) or type(error).__name__) from error


def fitted(image: Image.Image, size: int) -> UInt8[np.ndarray, "S S 3"]:
    """The largest square in the middle, resized (bilinear, antialiased) where it is of another size."""
    if image.size != (size, size):
        side = min(image.size)
        left, top = (image.width - side) // 2, (image.height - side) // 2
        image = image.crop((left, top, left + side, top + side)).resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(image)


def decode_each(files: ImageFiles, convert: Callable[[Image.Image], Decoded], title: str) -> Iterator[Decoded | BadImage]:
    """What `convert` makes of each image, in order, or why it does not decode; in threads, since decoders let others run."""

    def decode(name: str) -> Decoded | BadImage:
        try:
            return convert(read_rgb(files.folder / name))
        except BadImage as error:
            return error

    with ThreadPoolExecutor(os.cpu_count()) as pool, progress(title, len(files)) as advance:
        for start in range(0, len(files), _CHUNK):
            for result in pool.map(decode, files.names[start : start + _CHUNK]):
                advance(1)
                yield result


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.int64)
        if values.min() < 0 or values.max() > 65535:
            raise BadImage(f"its pixels must have 8 or 16 bits, they run from {values.min()} to {values.max()}")
        return Image.fromarray(((values + 128) // 257).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise BadImage("its pixels must have 8 or 16 bits, they are floats")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, (0, 0, 0, 255)), image).convert("RGB")
    return image.convert("RGB")
