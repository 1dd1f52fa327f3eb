"""Noise floors of every error of the predicted class's confidence, all from the same calibrated models."""

import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup.evaluation.noise_floor import NoiseFloor, noise_floor
from rankmixup.evaluation.replicates import Samples
from rankmixup.evaluation.resampling import BLOCK, Cuts, calibrated_draws, cumulative, plain_cuts
from rankmixup.metrics.calibration import Bins
from rankmixup.metrics.smooth import grid_cells, residual_grid, smooth_from_grid

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
    bins, observed = sums.bins(), residual_grid(samples.confidence, samples.right, _STEPS)
    found = {
        "ece": bins.ece(),
        "ece_l2": bins.ece("l2"),
        "mce": bins.mce(),
        "aece": sums.mass_gaps().abs().sum(dim=1) / size,
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
        points = torch.arange(_STEPS, dtype=torch.float64) / _STEPS
        inner = torch.searchsorted(samples.confidence, points)
        self.cells = plain_cuts(torch.nn.functional.pad(inner, (0, 1), value=len(samples)))
        cuts = (samples.width, samples.mass, self.cells)
        self.cuts = Cuts(*(torch.cat(column) for column in zip(*cuts, strict=True)))
        self.right = torch.zeros(replicates, len(self.cuts.start), dtype=torch.float64)
        self.expected = torch.zeros(len(self.cuts.start), dtype=torch.float64)
        self.shared = torch.zeros(replicates, len(self.cells.start), dtype=torch.float64)
        self.gap, self.largest = torch.zeros(2, replicates, dtype=torch.float64)

    def add_block(self, first: int, rng: torch.Generator) -> None:
        place = slice(first, first + BLOCK)
        confidence, last = self.samples.confidence[place], self.samples.last[place]
        _, share = grid_cells(confidence, _STEPS)
        expected, ends = cumulative(confidence), None if bool(last.all()) else last.nonzero().squeeze(1)
        self.expected += self.cuts.at(expected, first)
        self.shared -= self.cells.at(cumulative(confidence * share), first)
        begin = 0
        for draws in calibrated_draws(confidence, self.replicates, rng):
            rows = slice(begin, begin + len(draws))
            right = cumulative(draws)
            self.right[rows] += self.cuts.at(right, first)
            self.shared[rows] += self.cells.at(cumulative(draws * share), first)
            gap = expected[1:] - right[:, 1:] + self.gap[rows, None]
            at_ends = gap if ends is None else gap[:, ends]
            if at_ends.shape[1] > 0:
                self.largest[rows] = self.largest[rows].maximum(at_ends.abs().amax(dim=1))
            self.gap[rows] = gap[:, -1]
            begin = rows.stop

    def bins(self) -> Bins:
        """Of equal width."""
        total, right = (sums[..., : len(self.samples.width.start)].diff() for sums in (self.expected, self.right))
        return Bins(self.samples.width.start.diff().double().expand_as(right), total.expand_as(right), right)

    def mass_gaps(self) -> Float[Tensor, "R H"]:
        """Confidence minus correctness, summed over bins of equal mass."""
        place = slice(len(self.samples.width.start), len(self.samples.width.start) + len(self.samples.mass.start))
        return (self.expected[place] - self.right[:, place]).diff()

    def grid(self) -> Float[Tensor, "R G"]:
        """The residuals of `residual_grid`: of each sample a share at the point above it, the rest at the one below."""
        cells = slice(-len(self.cells.start), None)
        above, both = self.shared.diff(), (self.right[:, cells] - self.expected[cells]).diff()
        pad = torch.nn.functional.pad
        return pad(both - above, (0, 1)) + pad(above, (1, 0))
