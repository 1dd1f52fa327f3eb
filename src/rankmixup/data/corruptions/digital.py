"""Colours, geometry and compression."""

import io
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from rankmixup.data.corruptions.base import Draws, corruption
from rankmixup.data.corruptions.pixels import gaussian_blurred, sampled


@corruption("digital", colour=True)
def saturate(x: Tensor, constants: list[float], draws: Draws) -> Tensor:
    """Paler colours at severities 1 and 2, stronger ones from 3 on: the saturation of HSV changes, hue and value stay."""
    factor, shift = constants
    value, least = x.amax(dim=1, keepdim=True), x.amin(dim=1, keepdim=True)
    spread = value - least
    saturation = torch.where(value > 0, spread / value.clamp(min=1e-6), 0.0)
    # How far each channel lies below the value, relative to the lowest; grey counts as red, whose hue is 0.
    red = x.new_tensor([0.0, 1.0, 1.0]).view(1, 3, 1, 1)
    below = torch.where(spread > 0, (value - x) / spread.clamp(min=1e-6), red)
    return value * (1 - (saturation * factor + shift).clamp(0, 1) * below)


@corruption("digital")
def elastic_transform(x: Tensor, constants: list[float], draws: Draws) -> Tensor:
    """A random affine map, then smooth random displacements.

    **Approximation:** the published files were made with OpenCV, which rounds positions of the affine map to 1/32 pixel. For other sizes
    than the published ones, lengths are the same shares of the side.
    """
    height, width = x.shape[2:]
    strength, sigma, corner = (min(height, width) * share for share in constants)
    drawn = 2 * draws.uniform(6 + 2 * height * width).to(x.device) - 1
    third = min(height, width) // 3
    points = torch.tensor([[third, third], [third, -third], [-third, -third]], dtype=torch.float64) + torch.tensor(
        [height // 2, width // 2]
    )
    moved = points + corner * drawn[:, :6].double().cpu().view(-1, 3, 2)
    # Where the pixel at a position of the result comes from: the map that takes the moved points back. Points are (x, y).
    back = torch.linalg.solve(torch.cat([moved, torch.ones(len(x), 3, 1, dtype=torch.float64)], dim=2), points.expand(len(x), -1, -1))
    row, column = torch.meshgrid(torch.arange(height, device=x.device).float(), torch.arange(width, device=x.device).float(), indexing="ij")
    at = torch.stack([column, row, torch.ones_like(row)], dim=-1) @ back.float().to(x.device).unsqueeze(1)
    x = sampled(x, at[..., 1], at[..., 0], "mirror")
    shift = strength * gaussian_blurred(drawn[:, 6:].view(-1, 2, height, width), sigma, "symmetric", truncate=3.0)
    return sampled(x, row + shift[:, 1], column + shift[:, 0], "symmetric")


@corruption("digital")
def pixelate(x: Tensor, share: float, draws: Draws) -> Tensor:
    """Made smaller and then as large as before, by Pillow's box filter."""
    height, width = x.shape[2:]
    small = int(width * share), int(height * share)
    return _by_pillow(x, lambda image: image.resize(small, Image.Resampling.BOX).resize((width, height), Image.Resampling.BOX))


@corruption("digital")
def jpeg_compression(x: Tensor, quality: int, draws: Draws) -> Tensor:
    """Compressed as JPEG and unpacked, by Pillow."""

    def compressed(image: Image.Image) -> Image.Image:
        file = io.BytesIO()
        image.save(file, "JPEG", quality=quality)
        return Image.open(file)

    return _by_pillow(x, compressed)


def _by_pillow(x: Tensor, change: Callable[[Image.Image], Image.Image]) -> Tensor:
    """The images, each of them changed by a function of Pillow images."""
    pixels = (255 * x).round().to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy()
    pixels = pixels[..., 0] if pixels.shape[-1] == 1 else pixels
    found = torch.from_numpy(np.stack([np.asarray(change(Image.fromarray(each))) for each in pixels]))
    found = found.unsqueeze(1) if found.ndim == 3 else found.permute(0, 3, 1, 2)
    return found.to(x.device).float() / 255
