"""Images of any size and kind to bytes of the size that a network takes; those in files by worker processes."""

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from rankmixup import random
from rankmixup.data.base import ImageFiles, View
from rankmixup.data.images import BadImage, read_rgb
from rankmixup.errors import WorkFailed, require

__all__ = ["decoded", "evaluation_transform", "training_transform"]

_MARGIN = 256 / 224
"""How much larger than the central crop the shorter side of an ImageNet image is made for evaluation."""


@functools.lru_cache(maxsize=8)
def evaluation_transform(view: View) -> Callable[[Any], Any]:
    """Of PIL images or bytes `[..., C, H, W]`: colours, the shorter side (bilinear, antialiased), the centre."""
    from torchvision.transforms import v2

    colours = v2.RGB() if view.in_channels == 3 else v2.Grayscale(view.in_channels)
    shorter = round(view.image_size * _MARGIN) if view.augment == "resized-crop" else view.image_size
    return v2.Compose([colours, v2.Resize(shorter, antialias=True), v2.CenterCrop(view.image_size)])


@functools.lru_cache(maxsize=8)
def training_transform(view: View) -> Callable[[Any], Any]:
    """What training adds for images in files; it draws from torch's global generator."""
    from torchvision.transforms import v2

    colours = v2.RGB() if view.in_channels == 3 else v2.Grayscale(view.in_channels)
    resized = view.augment == "resized-crop"
    first = [colours, v2.RandomResizedCrop(view.image_size, antialias=True)] if resized else [evaluation_transform(view)]
    return v2.Compose([*first, *([v2.RandomHorizontalFlip()] if view.flip else [])])


class _Decoder(torch.utils.data.Dataset[Tensor | str]):
    """Decodes and transforms the file at a position, for a place in the epoch's order; in a worker process."""

    def __init__(self, files: ImageFiles, view: View, draws: tuple[str | int, ...] | None):
        self.files, self.view, self.draws = files, view, draws

    def __getitem__(self, wanted: tuple[int, int]) -> Tensor | str:
        from torchvision.transforms.v2.functional import pil_to_tensor

        position, place = wanted
        path = self.files.folder / self.files.names[position]
        try:
            image = read_rgb(path)
        except BadImage as error:
            # Raised here, it would arrive wrapped in a traceback.
            return f"image {path} must be one that can be decoded ({error})"
        if self.draws is None:
            return pil_to_tensor(evaluation_transform(self.view)(image))
        seed, *names = self.draws
        with random.cpu_seed(int(seed), *names, place):
            return pil_to_tensor(training_transform(self.view)(image))


def decoded(
    files: ImageFiles,
    view: View,
    positions: Sequence[Tensor],
    places: Sequence[Tensor] | None = None,
    *,
    draws: tuple[str | int, ...] | None = None,
    workers: int | None = None,
) -> Iterator[Tensor]:
    """A batch of bytes [B, C, S, S] for each list of `positions`.

    With `draws`, a seed and names of a random stream, each is augmented by what it draws for its place in the epoch's order.
    """
    workers = min(8, os.cpu_count() or 1) if workers is None else workers
    require(workers >= 0, f"workers must be at least 0, got {workers}")
    wanted = _Wanted(positions, positions if places is None else places)
    # A generator of its own, or the loader would draw from torch's global one, which belongs to the network's dropout.
    loader = torch.utils.data.DataLoader(
        _Decoder(files, view, draws),
        batch_sampler=wanted,
        num_workers=min(workers, len(positions)),
        collate_fn=_stacked,
        generator=torch.Generator(),
    )
    for images in loader:
        if isinstance(images, str):
            raise WorkFailed(images)
        yield images


def _stacked(images: list[Tensor | str]) -> Tensor | str:
    bad = [each for each in images if isinstance(each, str)]
    return bad[0] if bad else torch.stack([each for each in images if isinstance(each, Tensor)])


class _Wanted:
    """Batches of (position, place), made when they are needed."""

    def __init__(self, positions: Sequence[Tensor], places: Sequence[Tensor]):
        self.positions, self.places = positions, places

    def __len__(self) -> int:
        return len(self.positions)

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        for positions, places in zip(self.positions, self.places, strict=True):
            yield list(zip(positions.tolist(), places.tolist(), strict=True))
