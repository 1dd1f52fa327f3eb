"""Image files: which there are below a folder, the classes that its folders stand for, and their pixels as RGB bytes."""

import contextlib
import itertools
import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Int, UInt8
from PIL import ExifTags, Image
from torch import Tensor

from rankmixup.data.base import ImageFiles
from rankmixup.data.progress import progress
from rankmixup.errors import InvalidInput, one_line, require
from rankmixup.files import readable

Decoded = TypeVar("Decoded")

_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
SMALL = 64
"""Images up to this size are held in memory, cropped to a square and then resized."""
_PROBED = 500
"""Images that are opened to find the size of a folder's images."""
_AHEAD = 256
"""Most images that are decoded before they are asked for."""
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What turns an image upright, by the orientation that its EXIF data note."""


class BadImage(Exception):
    """A file does not decode as an image; the message says why."""


def image_names(folder: Path, bad: dict[str, str] | None = None) -> list[str]:
    """Image files anywhere below `folder`, as sorted paths relative to it, without hidden ones.

    Links to files are followed. Links to folders, which may form a cycle, and special files are refused; with `bad`, they are left out
    and named there with the reason.
    """
    names: list[str] = []
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        with _refusing(inside, bad if inside else None), readable(folder / inside, "a folder"), os.scandir(folder / inside) as entries:
            for entry in entries:
                name = inside + entry.name
                with _refusing(name, bad):
                    if entry.name.startswith("."):
                        continue
                    if _is_folder(entry):
                        waiting.append(f"{name}/")
                    elif name.lower().endswith(_SUFFIXES):
                        names.append(name)
    return sorted(names)


@contextlib.contextmanager
def _refusing(name: str, bad: dict[str, str] | None) -> Iterator[None]:
    """Why `name` is refused goes to `bad`, and is raised without it."""
    try:
        yield
    except InvalidInput as error:
        if bad is None:
            raise
        bad[name] = str(error)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder or a file; raises for anything else."""
    if entry.is_dir(follow_symlinks=False):
        return True
    # Not entry.is_file alone, which raises for links that form a cycle.
    is_file = entry.is_file(follow_symlinks=False) or Path(entry.path).is_file()
    refused = "links to folders, broken links, pipes and devices are refused"
    require(is_file, f"{entry.path} must be a file, a link to a file or a folder; {refused}")
    return False


def list_images(folder: Path, bad: dict[str, str] | None = None) -> ImageFiles:
    """All images of a folder, which must have some; `bad` as for `image_names`."""
    require(folder.is_dir(), f"{folder} must be a folder of images, there is none")
    names = image_names(folder, bad)
    require(len(names) > 0 or bool(bad), f"{folder} must hold images, it holds none")
    return ImageFiles(folder, tuple(names))


def list_classes(
    root: Path, part: str = "", class_names: tuple[str, ...] = ()
) -> tuple[tuple[str, ...], Int[Tensor, " N"], tuple[str, ...]]:
    """Images of `root / part`, which has a folder for each class with images anywhere below.

    Returns:
        Sorted paths below `root`, their labels, and the classes: `class_names`, or all that there are in order of their names.
    """
    folder = root / part
    require(folder.is_dir(), f"{folder} must be a folder, there is none")
    found = sorted(each.name for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))
    class_names = class_names or tuple(found)
    check_class_names(folder, class_names)
    require(len(class_names) >= 2, f"{folder} must hold a folder for each of at least 2 classes, got {len(class_names)}")
    label = {name: number for number, name in enumerate(class_names)}
    names = image_names(folder)
    classes = [name.partition("/")[0] for name in names]
    filled = set(classes)
    for name in found:
        require(name in label, f"class folder {folder / name} must be one of the training images' classes too, there is no {name!r}")
        require(name in filled, f"class folder {folder / name} must hold at least one image, got 0")
    for name in names:
        require("/" in name, f"image {folder / name} must be in the folder of its class, it is in none")
    prefix = f"{part}/" if part else ""
    return tuple(prefix + name for name in names), torch.tensor([label[name] for name in classes]), class_names


def check_class_names(folder: Path, class_names: Sequence[str]) -> None:
    """Raise unless reports and tables can show the names."""
    for name in class_names:
        require(one_line(name) == name, f"class folder {folder / name} must have a name in UTF-8 without control characters")


def read_rgb(path: Path) -> Image.Image:
    """The image in RGB: turned as the camera notes it (EXIF), greyscale repeated, transparent pixels over black, 16 bits scaled to 8."""
    try:
        with Image.open(path) as image:
            return to_rgb(image)
    except Exception as error:  # a damaged file can lead a decoder to any
        raise BadImage(str(error) or type(error).__name__) from error


def to_rgb(image: Image.Image) -> Image.Image:
    """An open image in RGB, as `read_rgb` gives it."""
    image.load()  # first, because a TIFF turns itself then, and forgets its orientation
    orientation = 1
    with contextlib.suppress(Exception):  # damaged notes can lead to any; the pixels may be whole
        orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
    coloured = _coloured(image)
    return coloured.transpose(_UPRIGHT[orientation]) if orientation in _UPRIGHT else coloured


def _coloured(image: Image.Image) -> Image.Image:
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


def fitted(image: Image.Image, size: int) -> Image.Image:
    """The largest square in the middle, resized (bilinear, antialiased) where it has another size."""
    if image.size == (size, size):
        return image
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    return image.crop((left, top, left + side, top + side)).resize((size, size), Image.Resampling.BILINEAR)


def decode_each(
    files: ImageFiles, convert: Callable[[Image.Image], Decoded], title: str, workers: int | None = None
) -> Iterator[Decoded | BadImage]:
    """`convert` of each image, in order, or why it does not decode.

    In threads, since decoders release the interpreter's lock: `workers`, by default one for each core.
    """

    def decode(name: str) -> Decoded | BadImage:
        try:
            return convert(read_rgb(files.folder / name))
        except BadImage as error:
            return error

    with ThreadPoolExecutor(workers or os.cpu_count()) as pool, progress(title, len(files)) as advance:
        begun = (pool.submit(decode, name) for name in files.names)
        waiting = deque(itertools.islice(begun, _AHEAD))
        while waiting:
            result = waiting.popleft().result()
            waiting.extend(itertools.islice(begun, 1))
            advance(1)
            yield result


def decode_all(files: ImageFiles, size: int) -> tuple[UInt8[Tensor, "N 3 S S"], dict[str, str]]:
    """All images, fitted to `size` pixels, and why those that stay black do not decode."""
    pixels, bad = np.zeros((len(files), size, size, 3), dtype=np.uint8), {}
    decoded = decode_each(files, lambda image: np.asarray(fitted(image, size)), f"decoding {files.folder.name}")
    for number, image in enumerate(decoded):
        if isinstance(image, BadImage):
            bad[files.names[number]] = str(image)
        else:
            pixels[number] = image
    return torch.from_numpy(pixels).permute(0, 3, 1, 2), bad


def shorter_sides(files: ImageFiles) -> list[int]:
    """The sorted shorter sides of the images that open, or of several hundred spread evenly."""
    sides = []
    for name in files.names[:: math.ceil(len(files) / _PROBED)]:
        # A damaged file can lead a decoder to any error; reading the images says which do not decode.
        with contextlib.suppress(Exception), Image.open(files.folder / name) as image:
            sides.append(min(image.size))
    require(len(sides) > 0, f"{files.folder} must hold an image that can be opened, none of {len(files)} can")
    return sorted(sides)
