"""Whatever a user has at hand, as batches of a network's input."""

import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from rankmixup.data import ImageFiles, Split, View, evaluation_batches
from rankmixup.data.images import BadImage, decode_each, list_images, to_rgb
from rankmixup.data.transforms import normalise, prepared, prepared_bytes
from rankmixup.errors import InvalidInput, require, shown
from rankmixup.ops import as_tensor, check_floats, check_tensor

Input = str | os.PathLike[str] | Image.Image | NDArray[Any] | Tensor | Sequence[Any]
"""An image file, a folder of them, an image, an array or a tensor of one sample or of many, or a list of such samples."""
_RULE = "x must be a path, a folder, a PIL image, an array, a tensor, or a list of these"


def input_batches(x: Input, view: View, *, batch_size: int, device: torch.device | str = "cpu") -> Iterator[Tensor]:
    """The network's input for each sample of `x`, in order.

    Bytes are colours: they are fitted to the size and channels of the view and normalised. Floats are taken as they are, unless the
    network was trained on arrays of floats: then they are standardised as those were.
    """
    if isinstance(x, str | os.PathLike):
        for _, images in decoded_batches(image_files(Path(x)), view, batch_size):
            yield normalise(images.to(device), view)
    elif isinstance(x, Tensor | np.ndarray):
        given = as_samples(x, view)
        if given.is_floating_point():
            yield from _of_floats(given, view, batch_size, device)
        else:
            yield from (normalise(prepared_bytes(part, view).to(device), view) for part in given.split(batch_size))
    elif isinstance(x, Sequence) and not isinstance(x, bytes):
        require(len(x) > 0, f"{_RULE}, got an empty list")
        for start in range(0, len(x), batch_size):
            samples = [_sample(each, view) for each in x[start : start + batch_size]]
            kinds = sorted({str(each.dtype) for each in samples})
            require(len(kinds) == 1, f"x must hold samples of bytes or of floats, got {' and '.join(kinds)}")
            batch = torch.stack(samples)
            yield from _of_floats(batch, view, batch_size, device) if batch.is_floating_point() else [normalise(batch.to(device), view)]
    else:
        yield normalise(_sample(x, view).unsqueeze(0).to(device), view)


def decoded_batches(
    files: ImageFiles, view: View, batch_size: int, bad: dict[str, str] | None = None, workers: int | None = None
) -> Iterator[tuple[list[str], UInt8[Tensor, "B C S S"]]]:
    """Names and prepared bytes of the files that decode; why the others do not goes to `bad`, and is raised without it."""
    _require_images(view)
    names: list[str] = []
    images: list[Tensor] = []
    results = decode_each(files, lambda image: prepared(image, view), "predicting", workers)
    for name, image in zip(files.names, results, strict=True):
        if isinstance(image, BadImage):
            if bad is None:
                raise InvalidInput(f"image {files.folder / name} must be one that can be decoded ({image})")
            bad[name] = str(image)
            continue
        names.append(name)
        images.append(image)
        if len(names) == batch_size:
            yield names, torch.stack(images)
            names, images = [], []
    if names:
        yield names, torch.stack(images)


def as_samples(x: Tensor | NDArray[Any], view: View) -> Tensor:
    """A batch `[N, C, H, W]` of bytes or floats out of one sample or many, in any usual order of dimensions."""
    if isinstance(x, np.ndarray):
        require(x.dtype.kind in "uifb", f"x must be an array of bytes or floats, got {x.dtype}")
        plain = x.dtype == np.uint8 and not np.ma.isMaskedArray(x)
        x = torch.from_numpy(np.array(x, order="C")) if plain else as_tensor("x", x)  # a copy, since an image's own array is read-only
    x = check_tensor("x", x).detach()
    require(not x.is_meta, "x must hold values, got a tensor on the meta device")
    if len(view.input_shape) != 3 and not x.is_complex():
        x = x.double()  # a table may hold whole numbers too
    require(x.dtype == torch.uint8 or x.is_floating_point(), f"x must hold bytes (uint8, 0 to 255) or floats, got {x.dtype}")
    x = x if x.dtype == torch.uint8 else check_floats("x", x)
    if x.dtype == torch.uint8:
        _require_images(view)
    shape = list(x.shape)
    channels = (1, 3) if x.dtype == torch.uint8 else (view.in_channels,)
    if len(view.input_shape) != 3:  # a row of a table, or something else that is no image
        x = x if x.ndim > len(view.input_shape) else x.unsqueeze(0)
        require(x.shape[1:] == view.input_shape and len(x) > 0, f"x must be [N, {', '.join(map(str, view.input_shape))}], got {shape}")
        return x
    if x.ndim == 2:
        x = x[None, None]
    elif x.ndim == 3 and 1 in channels and x.shape[0] not in channels and x.shape[2] not in (*channels, 2, 4):
        x = x.unsqueeze(1)  # grey images [N, H, W]; with two or four values at the end it is one image with transparency, and refused
    elif x.ndim == 3:
        x = x.unsqueeze(0)
    if x.ndim == 4 and x.shape[1] not in channels and x.shape[3] in channels:
        x = x.permute(0, 3, 1, 2)
    rule = f"x must hold images of {' or '.join(map(str, channels))} channels, [N, C, H, W] or [N, H, W, C], or be one of them"
    require(x.ndim == 4 and x.shape[1] in channels and x.numel() > 0, f"{rule}, got shape {shape}")
    return x


def _of_floats(x: Float[Tensor, "N ..."], view: View, batch_size: int, device: torch.device | str) -> Iterator[Float[Tensor, "B ..."]]:
    require(bool(x.isfinite().all()), "x must hold finite numbers, it does not")
    warn_of_colours(x, view)
    split = Split(x, torch.zeros(len(x), dtype=torch.long), torch.arange(len(x)))
    yield from evaluation_batches(split, view, device=device, batch_size=batch_size)


def warn_of_colours(x: Tensor, view: View) -> None:
    """Warn of floats that are none of the network's input: colours that are not normalised have no negative values."""
    if view.values == "floats" or not x.is_floating_point():
        return
    low, high = float(x.min()), float(x.max())
    black = min(-mean / std for mean, std in zip(view.mean, view.std, strict=True))
    white = max((1 - mean) / std for mean, std in zip(view.mean, view.std, strict=True))
    if low >= 0 and (black < 0 or high > white):
        advice = "give bytes (0 to 255), or what model.preprocess returns"
        range_ = "from 0 to 1" if high <= 1 else "from 0 to 255" if high <= 255 else f"from {low:g} to {high:g}"
        warnings.warn(f"x holds floats {range_}, which the network takes as they are, not as colours; {advice}", stacklevel=4)


def _sample(x: Any, view: View) -> Tensor:
    """One sample `[C, H, W]`: prepared bytes, or floats."""
    if isinstance(x, str | os.PathLike):
        files = image_files(Path(x))
        require(len(files) == 1, f"{_RULE}; a folder must be given alone, not in a list, got {x}")
        _, images = next(decoded_batches(files, view, 1))
        return images[0]
    if isinstance(x, Image.Image):
        _require_images(view)
        try:
            return prepared(to_rgb(x), view)
        except BadImage as error:
            raise InvalidInput(f"x must be an image that can be decoded ({error})") from error
    require(isinstance(x, Tensor | np.ndarray), f"{_RULE}, got {shown(x)}")
    batch = as_samples(x, view)
    require(len(batch) == 1, f"x must be a list of single samples, got one of shape {list(x.shape)}")
    return batch[0] if batch.is_floating_point() else prepared_bytes(batch, view)[0]


def _require_images(view: View) -> None:
    """Raise unless images have a meaning to the network."""
    rule = f"x must be an array of floats of shape {list(view.input_shape)} for each sample, as those that the network was trained on"
    require(view.values == "bytes", f"{rule}, got an image")


def image_files(path: Path, bad: dict[str, str] | None = None) -> ImageFiles:
    """The image, or all images of a folder; with `bad`, why files cannot be read goes there, and a broken link is one of them."""
    if path.is_dir():
        return list_images(path, bad)
    broken = bad is not None and path.is_symlink() and not path.exists()
    require(path.is_file() or broken, f"{path} must be an image or a folder of images, there is none")
    return ImageFiles(path.parent, (path.name,))
