"""Calibration errors as functions of gaps, for many replicates at once, and their intervals by test inversion."""

from math import pi, sqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup.evaluation.intervals import Inverted, Statistic, inverted_interval, scaled_interval
from rankmixup.evaluation.noise_floor import calibrated_gaps, noise_floor
from rankmixup.evaluation.registry import METRICS
from rankmixup.evaluation.replicates import GRID_CELLS, Bootstrap, Samples, bootstrap
from rankmixup.evaluation.results import Estimate, NoiseFloor
from rankmixup.metrics.smooth import smooth_from_grid


def bin_statistics(samples: Samples) -> dict[str, Statistic]:
    """Every metric that has `bins`, from gaps `[..., H]` times the share of their bin; shares and confidences stay as observed."""
    bins = samples.bins()
    filled, mean_confidence = torch.where(bins.weight > 0, bins.weight, 1.0), bins.mean_confidence

    def absolute(gap: Tensor) -> Tensor:
        return gap.abs().sum(dim=-1)

    return {
        "ece": absolute,
        "ece_l2": lambda gap: (gap.square() / filled).sum(dim=-1).sqrt(),
        "mce": lambda gap: (gap.abs() / filled).amax(dim=-1),
        "aece": absolute,
        "oe": lambda gap: (mean_confidence * gap.clamp(min=0)).sum(dim=-1),
        "ue": lambda gap: (mean_confidence * (-gap).clamp(min=0)).sum(dim=-1),
    }


def binned(of: Samples | Bootstrap, key: str) -> Any:
    """What belongs to the bins of a metric: the cuts of samples, or the gaps of replicates."""
    return of.mass if METRICS[key].bins == "mass" else of.width


def gap_floor(samples: Samples, key: str, replicates: int, rng: torch.Generator) -> NoiseFloor:
    """Noise floor of a metric that has `bins`."""
    cuts, statistic = binned(samples, key), bin_statistics(samples)[key]
    return noise_floor(statistic(calibrated_gaps(samples.confidence, cuts, replicates, rng)), statistic(samples.gaps(cuts)).item())


def gap_interval(samples: Samples, key: str, draws: Bootstrap, floor: NoiseFloor) -> Inverted:
    """Interval by test inversion of a metric that has `bins`."""
    gap = samples.gaps(binned(samples, key))
    noise = binned(draws, key) - gap
    if key == "ue":  # underconfidence is overconfidence with the sign of the gaps turned
        gap, noise, key = -gap, -noise, "oe"
    found = inverted_interval(gap, noise, bin_statistics(samples)[key], floor, signed=key == "oe")
    return found._replace(high=min(found.high, 1.0), centre=min(found.centre, 1.0))


def gap_estimate(samples: Samples, key: str, value: float, replicates: int, rng: torch.Generator) -> Estimate:
    """An error that is a norm of the gaps of bins, with its floor and, unless all predictions are right or all wrong, its interval."""
    floor = gap_floor(samples, key, replicates, rng)
    if samples.unanimous:
        return Estimate(value, floor=floor)
    interval = gap_interval(samples, key, bootstrap([samples], replicates, rng, ranked=False)[0], floor)
    return Estimate(value, interval.low, interval.high, floor)


def ks_interval(samples: Samples, draws: Bootstrap, floor: NoiseFloor) -> Inverted:
    """Interval of the KS error by test inversion."""
    confidence, right = samples.before(samples.ks_cuts)
    gap = (confidence - right) / len(samples)
    return scaled_interval(gap, draws.cumulative - gap, lambda gap: gap.abs().amax(dim=-1), floor)


def smooth_interval(samples: Samples, draws: Bootstrap, floor: NoiseFloor) -> Inverted:
    """Interval of smooth ECE by test inversion.

    Smooth ECE is at least s if and only if the residuals, smoothed with bandwidth s, have a norm of at least s. So replicates need not be
    solved for their own bandwidth: smoothed with the observed one they are on the right side of it.
    """
    gap = samples.gaps(samples.grid_cuts)

    def metric(factor: float) -> float:
        middles = torch.stack([torch.zeros_like(gap), factor * gap], dim=1).flatten()  # the gap of a cell is put at its middle
        return smooth_from_grid(torch.nn.functional.pad(middles, (0, 1)), 1).item()

    kernel = _smoothing(max(metric(1.0), 1e-3))
    smoothed, noise = gap @ kernel, (draws.grid - gap) @ kernel
    spread = (noise * smoothed.sign()).mean(dim=1).std(correction=0).item()
    return scaled_interval(smoothed, noise, lambda values: values.abs().mean(dim=-1), floor, spread=spread, metric=metric)


def _smoothing(sigma: float) -> Float[Tensor, "G P"]:
    """Density at the middle of each cell of what is put at another and spread by a Gaussian that is reflected at 0 and 1."""
    middle = (torch.arange(GRID_CELLS, dtype=torch.float64) + 0.5) / GRID_CELLS
    images = torch.cat([2 * turn + sign * middle for turn in range(-2, 3) for sign in (1, -1)]).view(10, -1)
    scaled = (images.unsqueeze(-1) - middle) / sigma
    return (-0.5 * scaled.square()).exp().sum(dim=0) / (sigma * sqrt(2 * pi))
