"""Smooth calibration error (smECE, Blasiok and Nakkiran, 2023): a kernel instead of bins, and no bandwidth to choose.

With residual r(i) = correct - confidence, spread over [0, 1] by a Gaussian of width sigma that is reflected at both ends,

    smECE(sigma) = integral over t of |mean over i of r(i) K_sigma(t, confidence(i))|.

It falls as sigma grows, from the L1 norm of the raw residuals, so that smECE(sigma) = sigma has exactly one solution:
that is the error. It needs no bins, moves continuously with the confidences, and is 0 only where calibration is perfect.

Reflection at both ends is the same as a periodic, even continuation of the residuals, on which a Gaussian is a
multiplication of Fourier coefficients. Residuals are kept on a grid, each shared linearly by its two neighbours: memory is
constant, sums add up over batches, and the result is off by about (step / sigma)^2 / 8 of itself.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rankmixup.metrics.inputs import Logits, Scalar, Target, top_label

GRID = 1 << 14
"""Steps of the grid: a sigma of 0.005 is eighty of them."""
_BLOCK = 1 << 17
"""Samples that are put on the grid at once."""


def smooth_calibration_error(logits: Logits, target: Target, *, from_logits: bool = True) -> Scalar:
    """Smooth calibration error: the sigma at which the residuals, smoothed with it, have the L1 norm sigma.

    >>> probs = torch.tensor([[0.9, 0.1], [0.9, 0.1]])  # one residual, -0.4: smoothing spreads it and takes nothing off
    >>> round(smooth_calibration_error(probs, torch.tensor([0, 1]), from_logits=False).item(), 4)
    0.4
    """
    return smooth_from_grid(residual_grid(*top_label(logits, target, from_logits=from_logits)), len(target))


def residual_grid(
    confidence: Float[Tensor, " N"], correct: Float[Tensor, " N"] | Bool[Tensor, " N"], steps: int = GRID
) -> Float[Tensor, " G"]:
    """Sums of correct - confidence at the points 0, 1/steps, ..., 1, in float64."""
    grid = torch.zeros(steps + 1, dtype=torch.float64, device=confidence.device)
    for part, right in zip(confidence.detach().split(_BLOCK), correct.detach().split(_BLOCK), strict=True):
        part = part.double()
        residual = right.double() - part
        below, share = grid_cells(part, steps)
        grid += torch.bincount(below, weights=residual * (1 - share), minlength=steps + 1)
        grid += torch.bincount(below + 1, weights=residual * share, minlength=steps + 1)
    return grid


def grid_cells(confidence: Float[Tensor, " N"], steps: int) -> tuple[Int[Tensor, " N"], Float[Tensor, " N"]]:
    """The point of the grid below each confidence, and how far it is from there to the next."""
    position = confidence * steps
    below = position.long().clamp(max=steps - 1)
    return below, position - below


def smooth_from_grid(grid: Float[Tensor, "*R G"], samples: int, tolerance: float = 1e-12) -> Float[Tensor, "*R"]:
    """Smooth calibration error from the sums of `residual_grid`; leading dimensions are independent sets of samples."""
    # The even continuation to a period of 2. A residual at either end meets its own image there.
    ends = torch.cat([2 * grid[..., :1], grid[..., 1:-1], 2 * grid[..., -1:]], dim=-1)
    spectrum = torch.fft.rfft(torch.cat([ends, grid[..., 1:-1].flip(-1)], dim=-1) / samples)
    frequency = math.pi * torch.arange(spectrum.shape[-1], dtype=torch.float64, device=grid.device)

    def excess(sigma: Tensor) -> Tensor:
        damping = (-0.5 * (frequency * sigma.unsqueeze(-1)).square()).exp()
        return torch.fft.irfft(spectrum * damping, n=2 * (grid.shape[-1] - 1)).abs().sum(dim=-1) / 2 - sigma

    # Smoothing neither makes nor loses residuals, it only lets them cancel: the solution lies between these.
    low, high = grid.sum(dim=-1).abs() / samples, grid.abs().sum(dim=-1) / samples
    at_low, at_high = excess(low), excess(high)
    while True:
        # Regula falsi; an end that stays counts half, so that the other cannot creep (the Illinois rule).
        weight = torch.where(at_low > at_high, at_low / (at_low - at_high), 0.5).clamp(0, 1)
        sigma = low + (high - low) * weight
        found = excess(sigma)
        # It falls at least as fast as sigma grows, so that its value bounds the distance from the solution.
        if not bool((found.abs().minimum(high - low) > tolerance).any()):
            return sigma
        below = found > 0
        at_low, at_high = torch.where(below, found, at_low / 2), torch.where(below, at_high / 2, found)
        low, high = torch.where(below, sigma, low), torch.where(below, high, sigma)
