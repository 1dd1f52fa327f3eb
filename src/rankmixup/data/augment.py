"""Bytes to a network's input, a whole batch at a time and on the device that holds it: random crops, flips, normalisation."""

import functools

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from rankmixup.data.base import View

__all__ = ["Augmentation", "normalise"]


class Augmentation:
    """The random crops and flips of one epoch: one draw for each place in the epoch's order."""

    def __init__(self, view: View, places: int, rng: torch.Generator):
        crops = (2 * view.padding + 1) ** 2 if view.augment == "crop" else 1
        self.view = view
        # Which of all combinations of vertical offset, horizontal offset and flip: uniform over them, so each is independent.
        self.drawn = torch.randint(crops * (1 + view.flip), (places,), generator=rng)

    def __call__(self, images: UInt8[Tensor, "B C H W"], places: Int[Tensor, " B"]) -> Float[Tensor, "B C H W"]:
        """The images, cropped, flipped as drawn for their `places` in the order, and normalised; channels last in memory."""
        size, channels, height, width = images.shape
        area = height * width
        # One pixel more than the image has: a zero, for all places of a crop that lie outside of it.
        pixels = images.new_zeros(size, area + 1, channels)
        pixels[:, :area] = images.permute(0, 2, 3, 1).reshape(size, area, channels)
        wanted = _crops(self.view, height, width, images.device).index_select(0, self.drawn[places].to(images.device))
        wanted = wanted + torch.arange(size, dtype=wanted.dtype, device=images.device).mul_(area + 1).unsqueeze(1)
        chosen = pixels.view(-1, channels).index_select(0, wanted.view(-1))
        return normalise(chosen.view(size, height, width, channels).permute(0, 3, 1, 2), self.view)


def normalise(images: UInt8[Tensor, "B C H W"], view: View) -> Float[Tensor, "B C H W"]:
    """(bytes / 255 - mean) / std in each channel; channels last in memory."""
    size, channels, height, width = images.shape
    # Flat rows, because a last dimension of three channels would be too short for the processor's vector units.
    scale, shift = _scale_and_shift(view, height * width, images.device)
    values = images.permute(0, 2, 3, 1).reshape(size, -1).float()
    return torch.addcmul(shift, values, scale, out=values).view(size, height, width, channels).permute(0, 3, 1, 2)


@functools.lru_cache(maxsize=8)
def _crops(view: View, height: int, width: int, device: torch.device) -> Int[Tensor, "D P"]:
    """For each draw and pixel of the crop, which pixel of the image it is; the one behind the last where it is padding."""
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
