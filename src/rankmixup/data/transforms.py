"""From images to a network's input: files are decoded by worker processes; random crops, flips and normalisation by the batch."""

import contextlib
import functools
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int, UInt8
from PIL import Image
from torch import Tensor

from rankmixup import random
from rankmixup.data.base import ImageFiles
from rankmixup.data.images import SMALL, BadImage, fitted, read_rgb
from rankmixup.data.view import View
from rankmixup.errors import WorkFailed, require
from rankmixup.files import reason

_MARGIN = 256 / 224
"""Shorter side of an ImageNet image over that of the central crop, in evaluation."""


class Augmentation:
    """The random crops and flips of one epoch: one draw for each place in the epoch's order."""

    def __init__(self, view: View, places: int, rng: torch.Generator):
        crops = (2 * view.padding + 1) ** 2 if view.augment == "crop" else 1
        self.view = view
        # One of all combinations of vertical offset, horizontal offset and flip: uniform over them, so each is independent.
        self.drawn = torch.randint(crops * (1 + view.flip), (places,), generator=rng)

    def __call__(self, images: UInt8[Tensor, "B C H W"], places: Int[Tensor, " B"]) -> Float[Tensor, "B C H W"]:
        """The images, cropped and flipped as drawn for their `places` in the order, and normalised; channels last in memory."""
        size, channels, height, width = images.shape
        area = height * width
        # One pixel more than the image has: a zero, for all places of a crop that are outside of it.
        pixels = images.new_zeros(size, area + 1, channels)
        pixels[:, :area] = images.permute(0, 2, 3, 1).reshape(size, area, channels)
        wanted = _crops(self.view, height, width, images.device).index_select(0, self.drawn[places].to(images.device))
        wanted = wanted + torch.arange(size, dtype=wanted.dtype, device=images.device).mul_(area + 1).unsqueeze(1)
        chosen = pixels.view(-1, channels).index_select(0, wanted.view(-1))
        return normalise(chosen.view(size, height, width, channels).permute(0, 3, 1, 2), self.view)


def normalise(images: UInt8[Tensor, "B C H W"] | Float[Tensor, "B ..."], view: View) -> Float[Tensor, "B ..."]:
    """(bytes / 255 - mean) / std in each channel, channels last in memory; or (floats - mean) / std, unless the view is plain."""
    if images.is_floating_point():
        # Float64 stays until it is centred: what is large and differs little would be all the same in float32.
        images = images if images.dtype == torch.float64 else images.float()
        if not view.plain:
            mean, std = _mean_and_std(view, images.dtype, images.device)
            channels_first = (-1, *[1] * (images.ndim - 2))
            images = (images - mean.view(channels_first)) / std.view(channels_first)
        return images.float()
    size, channels, height, width = images.shape
    # Flat rows, because a last dimension of three channels would be too short for the processor's vector units.
    scale, shift = _scale_and_shift(view, height * width, images.device)
    values = images.permute(0, 2, 3, 1).reshape(size, -1).float()
    return torch.addcmul(shift, values, scale, out=values).view(size, height, width, channels).permute(0, 3, 1, 2)


@functools.lru_cache(maxsize=8)
def _crops(view: View, height: int, width: int, device: torch.device) -> Int[Tensor, "D P"]:
    """For each draw and pixel of the crop, which pixel of the image it is; one past the last where it is padding."""
    reach = view.padding if view.augment == "crop" else 0
    offsets = torch.arange(-reach, reach + 1)
    rows = offsets[:, None] + torch.arange(height)
    columns = offsets[:, None] + torch.arange(width)
    if view.flip:
        columns = torch.cat([columns, columns.flip(1)])
    rows, columns = rows[:, None, :, None], columns[None, :, None, :]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    return torch.where(inside, rows * width + columns, height * width).flatten(2).flatten(0, 1).int().to(device)


@functools.lru_cache(maxsize=8)
def _scale_and_shift(view: View, area: int, device: torch.device) -> tuple[Float[Tensor, " A"], Float[Tensor, " A"]]:
    mean, std = (torch.tensor(values, dtype=torch.float64) for values in (view.mean, view.std))
    return (1 / (255 * std)).float().repeat(area).to(device), (-mean / std).float().repeat(area).to(device)


@functools.lru_cache(maxsize=8)
def _mean_and_std(view: View, dtype: torch.dtype, device: torch.device) -> tuple[Float[Tensor, " C"], Float[Tensor, " C"]]:
    return torch.tensor(view.mean, dtype=dtype, device=device), torch.tensor(view.std, dtype=dtype, device=device)


@functools.lru_cache(maxsize=8)
def file_transform(view: View, *, training: bool) -> Callable[[Image.Image], Image.Image]:
    """Transform of a picture to the colours and size of `view`, bilinear and antialiased.

    For evaluation it resizes the shorter side and takes the centre; of images that are held in memory, it takes the centre and resizes
    that. For training it draws from torch's global generator.
    """
    from torchvision.transforms import v2

    colours = v2.RGB() if view.in_channels == 3 else v2.Grayscale(view.in_channels)
    square_first, shorter = _geometry(view)
    steps = [colours, v2.Resize(shorter, antialias=True), v2.CenterCrop(view.image_size)]
    if training and view.augment == "resized-crop":
        steps = [colours, v2.RandomResizedCrop(view.image_size, antialias=True)]
    elif square_first:
        steps = [colours, v2.Lambda(functools.partial(fitted, size=view.image_size))]
    return v2.Compose([*steps, v2.RandomHorizontalFlip()] if training and view.flip else steps)


def _geometry(view: View) -> tuple[bool, int]:
    """Whether the middle square is taken before resizing, and not after it; and what the shorter side is resized to."""
    if view.augment == "resized-crop":
        return False, round(view.image_size * _MARGIN)
    return view.image_size <= SMALL, view.image_size


def preprocessing(view: View) -> dict[str, Any]:
    """What `read_rgb`, `prepared` and `normalise` do, in this order, as data for programs that do it without this library."""
    normalised = {"mean": view.mean, "std": view.std}
    square_first, shorter = _geometry(view)
    if view.values == "floats":
        return {"values": view.values, "image_size": view.image_size, "shape": view.shape, **normalised}
    return {
        "values": view.values,
        "orientation": "exif",
        "sixteen_bits": "(value + 128) // 257",
        "transparency": "black",
        "colours": "RGB" if view.in_channels == 3 else "L",
        "square_first": square_first,
        "resize": shorter,
        "interpolation": "bilinear",
        "antialias": True,
        "rounding": {"longer_side": "down", "crop_offset": "half to even", "pixels": "to bytes"},
        "crop": view.image_size,
        "image_size": view.image_size,
        "layout": "NCHW",
        "scale": 255,
        **normalised,
    }


def prepared(image: Image.Image, view: View) -> UInt8[Tensor, "C S S"]:
    """A picture in the colours and size of `view`, which only `normalise` must follow.

    Every image that is evaluated or predicted comes through here, once: to prepare it again would cut off another border.
    """
    from torchvision.transforms.v2.functional import pil_to_tensor

    return pil_to_tensor(file_transform(view, training=False)(image))


def prepared_bytes(images: UInt8[Tensor, "B A H W"], view: View) -> UInt8[Tensor, "B C S S"]:
    """Images in memory, with one or three channels, each `prepared` as the picture that it is."""
    if images.shape[1:] == view.input_shape and view.augment != "resized-crop":
        return images
    pixels = images.permute(0, 2, 3, 1).cpu().numpy()
    grey = images.shape[1] == 1
    return torch.stack([prepared(Image.fromarray(each[..., 0] if grey else each), view) for each in pixels]).to(images.device)


def decoded(
    files: ImageFiles, view: View, positions: Sequence[Tensor], workers: int | None, places: Sequence[Tensor] = (), *draws: str | int
) -> Iterator[UInt8[Tensor, "B C S S"]]:
    """A batch of bytes for each tensor of `positions`.

    With `draws`, a seed and names of a random stream, images are augmented by what they draw for their places in the epoch's order.
    """
    workers = min(8, os.cpu_count() or 1) if workers is None else workers
    return batches_made(_Decoder(files, view, draws), positions, places, workers)


def batches_made(
    maker: "torch.utils.data.Dataset[Tensor | str]", positions: Sequence[Tensor], places: Sequence[Tensor], workers: int
) -> Iterator[Tensor]:
    """What `maker` makes of the pairs of position and place of each batch, in processes; text is the reason why it could not."""
    require(workers >= 0, f"workers must be at least 0, got {workers}")
    pairs = zip(positions, places or positions, strict=True)
    # A generator of its own, or the loader would draw from torch's global one, which belongs to the network's dropout.
    loader = torch.utils.data.DataLoader(
        maker,
        batch_size=None,
        sampler=(list(zip(*(each.tolist() for each in pair), strict=True)) for pair in pairs),
        num_workers=min(workers, len(positions)),
        generator=torch.Generator(),
        worker_init_fn=_leave_signals_to_main,
    )
    try:
        for images in loader:
            if isinstance(images, str):
                raise WorkFailed(images)
            yield images
    except RuntimeError as error:
        if "DataLoader worker" not in str(error):
            raise
        raise WorkFailed(f"a worker process is gone, perhaps for want of memory ({reason(error)})") from error


def _leave_signals_to_main(worker: int) -> None:
    """In a worker process: what asks a run to stop reaches all its processes, and the main one still needs the batch to save its step."""
    for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)


class _Decoder(torch.utils.data.Dataset[Tensor | str]):
    """Decodes and transforms the files at some positions, for their places in the epoch's order; in a worker process."""

    def __init__(self, files: ImageFiles, view: View, draws: tuple[str | int, ...]):
        self.files, self.view, self.draws = files, view, draws

    def __getitem__(self, wanted: list[tuple[int, int]]) -> Tensor | str:
        from torchvision.transforms.v2.functional import pil_to_tensor

        transform, images = file_transform(self.view, training=bool(self.draws)), []
        seed, *names = self.draws or (0,)
        for position, place in wanted:
            path = self.files.folder / self.files.names[position]
            try:
                image = read_rgb(path)
            except BadImage as error:
                # Raised from here, it would arrive wrapped in a traceback.
                return f"image {path} must be one that can be decoded ({error})"
            with random.global_seed(int(seed), *names, place, gpus=False) if self.draws else contextlib.nullcontext():
                images.append(pil_to_tensor(transform(image)))
        return torch.stack(images)
