"""Calibration errors as functions of the gaps of bins, for many replicates at once."""

import torch
from torch import Tensor

from rankmixup.evaluation.intervals import Inverted, Statistic, inverted_interval
from rankmixup.evaluation.noise_floor import NoiseFloor, calibrated_gaps, noise_floor
from rankmixup.evaluation.registry import METRICS
from rankmixup.evaluation.replicates import Bootstrap, Samples, bootstrap
from rankmixup.evaluation.resampling import Cuts
from rankmixup.evaluation.results import Estimate

__all__ = ["bin_statistics", "gap_draws", "gap_estimate", "gap_floor", "gap_interval"]


def bin_statistics(samples: Samples) -> dict[str, Statistic]:
    """Every metric that has `bins`, from gaps `[..., H]` times the share of their bin; shares and confidences stay as observed."""
    count = samples.width.start.diff().double()
    share = count / count.sum()
    mean_confidence = samples.before(samples.width)[0].diff() / count.clamp(min=1)
    filled = torch.where(share > 0, share, 1.0)

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


def gap_floor(samples: Samples, key: str, replicates: int, rng: torch.Generator) -> NoiseFloor:
    """Noise floor of a metric that has `bins`."""
    cuts, statistic = _cuts(samples, key), bin_statistics(samples)[key]
    gaps = calibrated_gaps(samples.confidence, cuts, replicates, rng)
    return noise_floor(statistic(gaps), statistic(samples.gaps(cuts)).item())


def gap_interval(samples: Samples, key: str, draws: Bootstrap, floor: NoiseFloor) -> Inverted:
    """Interval by test inversion of a metric that has `bins`."""
    gap = samples.gaps(_cuts(samples, key))
    noise = gap_draws(draws, key) - gap
    if key == "ue":  # underconfidence is overconfidence with the sign of the gaps turned
        gap, noise, key = -gap, -noise, "oe"
    return inverted_interval(gap, noise, bin_statistics(samples)[key], floor, signed=key == "oe").at_most(1.0)


def gap_draws(draws: Bootstrap, key: str) -> Tensor:
    """The replicates of the gaps that a metric is a norm of."""
    return draws.mass if METRICS[key].bins == "mass" else draws.width


def gap_estimate(samples: Samples, key: str, value: float, replicates: int, rng: torch.Generator) -> Estimate:
    """An error that is a norm of the gaps of bins, with its floor and, unless all predictions are right or all wrong, its interval."""
    floor = gap_floor(samples, key, replicates, rng)
    if samples.unanimous:
        return Estimate(value, floor=floor)
    (draws,) = bootstrap([samples], replicates, rng, ranked=False)
    interval = gap_interval(samples, key, draws, floor)
    return Estimate(value, interval.low, interval.high, floor)


def _cuts(samples: Samples, key: str) -> Cuts:
    return samples.mass if METRICS[key].bins == "mass" else samples.width
