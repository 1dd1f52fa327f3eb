"""Noise floors of every error of the predicted class's confidence, all from the same calibrated models."""

import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup.metrics.calibration import Bins
from rankmixup.metrics.noise_floor import NoiseFloor, noise_floor
from rankmixup.metrics.replicates import Samples
from rankmixup.metrics.resampling import BLOCK, Cuts, calibrated_draws, cumulative
from rankmixup.metrics.smooth import residual_grid, smooth_from_grid

__all__ = ["error_floors"]

_STEPS = 1024
"""Grid for replicates of smooth ECE; the observed value is taken from the same grid where the two are compared."""
_TOGETHER = 64
"""Replicates of smooth ECE that are solved at once."""


def error_floors(samples: Samples, values: dict[str, float | None], replicates: int, rng: torch.Generator) -> dict[str, NoiseFloor]:
    """Noise floor of each of `values` that is such an error."""
    size, sums = len(samples), _CalibratedSums(samples, replicates)
    for first in range(0, size, BLOCK):
        sums.add_block(first, rng)
    calibrated, observed = cumulative(samples.confidence), residual_grid(samples.confidence, samples.right.double(), _STEPS)
    width = sums.width.diff()
    bins = Bins(samples.width.start.diff().expand_as(width).double(), samples.width.at(calibrated).diff().expand_as(width), width)
    found = {
        "ece": bins.ece(),
        "ece_l2": bins.ece("l2"),
        "mce": bins.mce(),
        "aece": (samples.mass.at(calibrated) - sums.mass).diff().abs().sum(dim=1) / size,
        "oe": bins.oe(),
        "ue": bins.ue(),
        "debiased_ece": bins.debiased(),
        "ks": sums.largest / size,
        "smooth_ece": torch.cat([smooth_from_grid(part, size, tolerance=1e-6) for part in sums.grid().split(_TOGETHER)]),
    }
    shown = values | {"smooth_ece": smooth_from_grid(observed, size).item()}
    return {key: noise_floor(draws, value) for key, draws in found.items() if (value := shown[key]) is not None}


class _CalibratedSums:
    """Sums over the right predictions of calibrated models, which add up over blocks of samples."""

    def __init__(self, samples: Samples, replicates: int):
        self.samples, self.replicates = samples, replicates
        below, self.share = _cells(samples.confidence)
        place = torch.nn.functional.pad(torch.bincount(below, minlength=_STEPS).cumsum(0), (1, 0))
        self.cells = Cuts(place, place, torch.zeros(len(place), dtype=torch.float64))
        cuts = (samples.width, samples.mass, self.cells)
        self.cuts = Cuts(*(torch.cat(column) for column in zip(*cuts, strict=True)))
        self.right = torch.zeros(replicates, len(self.cuts.start), dtype=torch.float64)
        self.shared = torch.zeros(replicates, len(place), dtype=torch.float64)
        self.gap, self.largest = torch.zeros(2, replicates, dtype=torch.float64)

    def add_block(self, first: int, rng: torch.Generator) -> None:
        place = slice(first, first + BLOCK)
        confidence, share, last = (each[place] for each in (self.samples.confidence, self.share, self.samples.last))
        expected, ends = confidence.cumsum(0), None if bool(last.all()) else last.nonzero().squeeze(1)
        begin = 0
        for draws in calibrated_draws(confidence, self.replicates, rng):
            rows = slice(begin, begin + len(draws))
            right = cumulative(draws)
            self.right[rows] += self.cuts.at(right, first)
            self.shared[rows] += self.cells.at(cumulative(draws * share), first)
            gap = expected - right[:, 1:] + self.gap[rows, None]
            at_ends = gap if ends is None else gap[:, ends]
            if at_ends.shape[1] > 0:
                self.largest[rows] = self.largest[rows].maximum(at_ends.abs().amax(dim=1))
            self.gap[rows] = gap[:, -1]
            begin = rows.stop

    @property
    def width(self) -> Float[Tensor, "R C"]:
        return self.right[:, : len(self.samples.width.start)]

    @property
    def mass(self) -> Float[Tensor, "R C"]:
        return self.right[:, len(self.samples.width.start) :][:, : len(self.samples.mass.start)]

    def grid(self) -> Float[Tensor, "R G"]:
        """The residuals of `residual_grid`: of each sample a share at the point above it, the rest at the one below."""
        confidence = self.samples.confidence
        above = (self.shared - self.cells.at(cumulative(confidence * self.share))).diff()
        both = (self.right[:, -len(self.cells.start) :] - self.cells.at(cumulative(confidence))).diff()
        pad = torch.nn.functional.pad
        return pad(both - above, (0, 1)) + pad(above, (1, 0))


def _cells(confidence: Tensor) -> tuple[Tensor, Tensor]:
    position = confidence * _STEPS
    below = position.long().clamp(max=_STEPS - 1)
    return below, position - below
