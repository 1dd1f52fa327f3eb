"""Weather and light."""

import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup.data.corruptions.base import Draws, corruption


@corruption("weather")
def fog(x: Tensor, constants: list[float], draws: Draws) -> Tensor:
    """A fractal of light added to the image, which is then scaled back to its own maximum."""
    thickness, decay = constants
    height, width = x.shape[2:]
    side = 1 << (max(height, width) - 1).bit_length()
    brightest = x.amax(dim=(1, 2, 3), keepdim=True)
    mist = plasma(side, decay, draws)[:, None, :height, :width].to(x.device)
    return (x + thickness * mist) * brightest / (brightest + thickness)


def plasma(side: int, decay: float, draws: Draws) -> Float[Tensor, "N S S"]:
    """Fractals in [0, 1] by the diamond-square algorithm, which wrap around; `side` is a power of two.

    Noise is uniform and its range falls by decay squared from one scale to the next.
    """
    # All noise at once: each pixel is set exactly once, but the first, which is 0.
    noise = 2 * draws.uniform(side, side).double() - 1
    found, step, scale = torch.zeros_like(noise), side, 100.0
    while step >= 2:
        half = step // 2
        corners, centres = slice(0, None, step), slice(half, None, step)
        # Centres of squares, from four corners.
        four = found[:, corners, corners]
        four = four + four.roll(-1, 1)
        four = four + four.roll(-1, 2)
        found[:, centres, centres] = four / 4 + scale**2 * noise[:, centres, centres]
        # Middles of sides, from two corners and two centres.
        corner, centre = found[:, corners, corners], found[:, centres, centres]
        across = corner + corner.roll(-1, 2) + centre + centre.roll(1, 1)
        down = corner + corner.roll(-1, 1) + centre + centre.roll(1, 2)
        found[:, corners, centres] = across / 4 + scale**2 * noise[:, corners, centres]
        found[:, centres, corners] = down / 4 + scale**2 * noise[:, centres, corners]
        step, scale = half, scale / decay
    found -= found.amin(dim=(1, 2), keepdim=True)
    return (found / found.amax(dim=(1, 2), keepdim=True)).float()


@corruption("weather")
def brightness(x: Tensor, shift: float, draws: Draws) -> Tensor:
    """More light: the value of HSV is raised, hue and saturation stay."""
    value = x.amax(dim=1, keepdim=True)
    raised = (value + shift).clamp(max=1)
    # With hue and saturation fixed, colours are proportional to the value; black has none and becomes grey.
    return torch.where(value > 0, x * raised / value.clamp(min=1e-6), raised)


@corruption("weather")
def contrast(x: Tensor, factor: float, draws: Draws) -> Tensor:
    """Less contrast: each channel moves towards its mean over the image."""
    mean = x.mean(dim=(2, 3), keepdim=True)
    return (x - mean) * factor + mean
