"""Noise."""

import torch
from torch import Tensor

from rankmixup.data.corruptions.base import Draws, corruption


@corruption("noise")
def gaussian_noise(x: Tensor, scale: float, draws: Draws) -> Tensor:
    """Gaussian noise on every value."""
    return x + scale * draws.normal(*x.shape[1:]).to(x.device)


@corruption("noise")
def shot_noise(x: Tensor, photons: float, draws: Draws) -> Tensor:
    """Poisson noise: photons are counted."""
    return draws.poisson(x * photons).to(x.device) / photons


@corruption("noise")
def impulse_noise(x: Tensor, share: float, draws: Draws) -> Tensor:
    """Salt and pepper: a share of the values, each channel for itself, becomes 0 or 1."""
    drawn = draws.uniform(*x.shape[1:]).to(x.device)
    # One number decides both: below half of the share it is pepper, below the whole share salt.
    return torch.where(drawn < share / 2, 0.0, torch.where(drawn < share, 1.0, x))


@corruption("noise")
def speckle_noise(x: Tensor, scale: float, draws: Draws) -> Tensor:
    """Gaussian noise in proportion to every value."""
    return x + x * scale * draws.normal(*x.shape[1:]).to(x.device)
