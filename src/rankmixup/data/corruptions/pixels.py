"""Borders, separable filters and sampling between pixels, with the conventions of the libraries that made the published files."""

import functools
import math
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

Border = Literal["edge", "mirror", "symmetric"]
"""What lies beyond an image `abc`: edge `aa|abc|cc`, mirror `cb|abc|ba` (OpenCV's default), symmetric `ba|abc|cb` (scipy's reflect)."""


def inside(position: Int[Tensor, "..."], size: int, border: Border) -> Int[Tensor, "..."]:
    """Which pixel stands at a position that may lie outside of the image.

    >>> at = torch.arange(-2, 5)
    >>> [inside(at, 3, border).tolist() for border in ("edge", "mirror", "symmetric")]
    [[0, 0, 0, 1, 2, 2, 2], [2, 1, 0, 1, 2, 1, 0], [1, 0, 0, 1, 2, 2, 1]]
    """
    if border == "edge" or size == 1:
        return position.clamp(0, size - 1)
    period = 2 * size - (2 if border == "mirror" else 0)
    folded = position % period
    return torch.minimum(folded, period - (0 if border == "mirror" else 1) - folded)


@functools.lru_cache(maxsize=64)
def gaussian_matrix(size: int, sigma: float, border: Border, truncate: float) -> Float[Tensor, "S S"]:
    """Row i has the weights with which pixels make pixel i of a Gaussian blur; cut off at `truncate` standard deviations, as in scipy."""
    radius = int(truncate * sigma + 0.5)
    offset = torch.arange(-radius, radius + 1)
    # A standard deviation of 0 leaves pixels as they are.
    weight = (-0.5 * (offset.double() / max(sigma, 1e-12)) ** 2).exp()
    return _filter_matrix(size, offset, weight / weight.sum(), border)


def _filter_matrix(size: int, offset: Int[Tensor, " T"], weight: Float[Tensor, " T"], border: Border) -> Float[Tensor, "S S"]:
    place = inside(torch.arange(size)[:, None] + offset, size, border)
    matrix = torch.zeros(size, size, dtype=torch.float64)
    return matrix.scatter_add_(1, place, weight.expand(size, -1)).float()


def gaussian_blurred(x: Float[Tensor, "*b H W"], sigma: float, border: Border = "edge", truncate: float = 4.0) -> Float[Tensor, "*b H W"]:
    """Gaussian blur, along rows and along columns; by default with scikit-image's border and cut-off."""
    height, width = (gaussian_matrix(size, sigma, border, truncate).to(x.device) for size in x.shape[-2:])
    return height @ x @ width.T


@functools.lru_cache(maxsize=256)
def zoom_matrix(size: int, factor: float) -> Float[Tensor, "S S"]:
    """Row i has the weights with which pixels make pixel i of the centre of an image enlarged linearly by `factor`.

    The crop has ceil(size / factor) pixels. As in scipy's zoom, its first and last pixels become the first and last of the enlarged crop,
    of which the centre is taken.
    """
    crop = math.ceil(size / factor)
    enlarged = round(crop * factor)
    at = (torch.arange(size) + (enlarged - size) // 2).double() * (crop - 1) / max(enlarged - 1, 1)
    low = at.floor().clamp(max=max(crop - 2, 0))
    share, first = at - low, (size - crop) // 2 + low.long()
    matrix = torch.zeros(size, size, dtype=torch.float64)
    matrix.scatter_add_(1, first[:, None], (1 - share)[:, None])
    return matrix.scatter_add_(1, (first + 1).clamp(max=size - 1)[:, None], share[:, None]).float()


def sampled(
    x: Float[Tensor, "N C H W"], rows: Float[Tensor, "N H W"], columns: Float[Tensor, "N H W"], border: Border
) -> Float[Tensor, "N C H W"]:
    """Bilinear interpolation of each image at its own positions."""
    size, channels, height, width = x.shape
    flat, total = x.reshape(size, channels, -1), torch.zeros_like(x)
    top, left = rows.floor(), columns.floor()
    for down in (0, 1):
        vertical = inside(top.long() + down, height, border) * width
        weight_down = (rows - top - (1 - down)).abs()
        for right in (0, 1):
            place = vertical + inside(left.long() + right, width, border)
            weight = weight_down * (columns - left - (1 - right)).abs()
            found = flat.gather(2, place.view(size, 1, -1).expand(-1, channels, -1)).view_as(x)
            total += weight.unsqueeze(1) * found
    return total
