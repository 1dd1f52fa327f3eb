"""Blur."""

import functools
import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup.data.corruptions.base import Draws, corruption, to_bytes
from rankmixup.data.corruptions.pixels import gaussian_blurred, inside, zoom_matrix


@corruption("blur")
def gaussian_blur(x: Tensor, sigma: float, draws: Draws) -> Tensor:
    """Gaussian blur."""
    return gaussian_blurred(x, sigma)


@corruption("blur")
def defocus_blur(x: Tensor, constants: list[float], draws: Draws) -> Tensor:
    """Blur by a disk with a smoothed edge, as of a lens out of focus."""
    # In float64: means of five equal weights are often whole numbers but for a ten-thousandth, which truncation must see.
    x, kernel = x.cpu().double(), disk(*constants)
    reach, (height, width) = kernel.shape[0] // 2, x.shape[2:]
    rows, columns = (inside(torch.arange(-reach, size + reach), size, "mirror") for size in (height, width))
    padded, total = x[:, :, rows][:, :, :, columns], torch.zeros_like(x)
    for down, right in kernel.nonzero().tolist():  # many times as fast as a convolution of single channels
        total.add_(padded[:, :, down : down + height, right : right + width], alpha=float(kernel[down, right]))
    return total


@functools.lru_cache(maxsize=32)
def disk(radius: float, sigma: float) -> Float[Tensor, "S S"]:
    """The kernel: equal weights within the radius, then a Gaussian of 3x3 pixels, or of 5x5 for radii above 8; without zeros around."""
    reach, edge = (8, 1) if radius <= 8 else (int(radius), 2)
    at = torch.arange(-reach, reach + 1).double()
    kernel = (at[:, None] ** 2 + at**2 <= radius**2).double()
    offset = torch.arange(-edge, edge + 1)
    weight = (-0.5 * (offset.double() / sigma) ** 2).exp()
    weight /= weight.sum()
    rows = torch.zeros(len(at), len(at), dtype=torch.float64)
    place = inside(torch.arange(len(at))[:, None] + offset, len(at), "mirror")
    rows.scatter_add_(1, place, weight.expand(len(at), -1))
    kernel = rows @ (kernel / kernel.sum()) @ rows.T
    used = int(at[(kernel > 0).any(dim=1)].abs().max())
    return kernel[reach - used : reach + used + 1, reach - used : reach + used + 1]


@corruption("blur")
def glass_blur(x: Tensor, constants: list[float], draws: Draws) -> Tensor:
    """Gaussian blur, pixels replaced by near ones, Gaussian blur again, as through frosted glass.

    The authors meant pixels to be exchanged. Their code overwrites each with its partner, and so do the published files and this function.
    """
    sigma, (reach, rounds) = constants[0], map(int, constants[1:])
    height, width = x.shape[2:]
    x = to_bytes(gaussian_blurred(x, sigma)).float() / 255
    drawn = draws.each(lambda rng: torch.randint(-reach, reach, (rounds, 2, height, width), generator=rng)).numpy()
    drawn = np.moveaxis(drawn, 0, -1)  # the images last, so that what belongs to one pixel is in one piece
    place = np.repeat(np.arange(height * width)[:, None], len(x), axis=1)
    images = np.arange(len(x))
    for right, down in drawn:
        for row in range(height - reach, reach, -1):
            for column in range(width - reach, reach, -1):
                source = (row + down[row, column]) * width + column + right[row, column]
                place[row * width + column] = place[source, images]
    where = torch.from_numpy(place.T.copy()).to(x.device).unsqueeze(1).expand(-1, x.shape[1], -1)
    return gaussian_blurred(x.flatten(2).gather(2, where).view_as(x), sigma)


@corruption("blur")
def motion_blur(x: Tensor, constants: list[float], draws: Draws) -> Tensor:
    """Blur along a line from each pixel on, at an angle between -45 and 45 degrees.

    **Approximation:** follows what is documented of ImageMagick's motion blur, with which the files were made: half a Gaussian over
    2 x radius + 1 pixels, each at the nearest whole position, the pixels of the edge repeated, and the result rounded.
    """
    radius, sigma = constants
    taps = torch.arange(2 * math.ceil(radius) + 1)
    weight = (-0.5 * (taps.double() / sigma) ** 2).exp()
    weight = (weight / weight.sum()).float()
    angle = torch.deg2rad(90 * draws.uniform().double() - 45)
    right, down = ((taps * part[:, None] - 0.5).ceil().long() for part in (angle.cos(), angle.sin()))
    size, _, height, width = x.shape
    total, flat = torch.zeros_like(x), x.flatten(2)
    for tap in taps.tolist():
        rows = inside(torch.arange(height) + down[:, tap, None], height, "edge")
        columns = inside(torch.arange(width) + right[:, tap, None], width, "edge")
        place = (rows.unsqueeze(2) * width + columns.unsqueeze(1)).view(size, 1, -1).to(x.device)
        total += weight[tap] * flat.gather(2, place.expand(-1, x.shape[1], -1)).view_as(x)
    return (total * 255).round() / 255


@corruption("blur")
def zoom_blur(x: Tensor, constants: list[float], draws: Draws) -> Tensor:
    """Mean of the image and of enlargements of its centre, as of a lens that zooms while it exposes."""
    end, step = constants
    factors = np.arange(1, end, step).tolist()  # which may hold the end itself: it is rounded as in the published script
    height, width = x.shape[2:]
    total = x.flatten(0, 1)
    for factor in factors:
        down, across = zoom_matrix(height, factor).to(x.device), zoom_matrix(width, factor).T.to(x.device)
        wide = (x.reshape(-1, width) @ across).view(-1, height, width)
        total = total + (wide.transpose(1, 2).reshape(-1, height) @ down.T).view(-1, width, height).transpose(1, 2)
    return total.view_as(x) / (len(factors) + 1)
