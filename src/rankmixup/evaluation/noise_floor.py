"""Noise floors: what calibration errors show for calibrated models with the same confidences, by consistency resampling."""

import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup.errors import require, require_number
from rankmixup.evaluation.replicates import Samples
from rankmixup.evaluation.resampling import BLOCK, Cuts, calibrated_draws, check_replicates, cumulative
from rankmixup.evaluation.results import NoiseFloor, percentiles
from rankmixup.metrics.calibration import Bins
from rankmixup.metrics.smooth import grid_cells, residual_grid, smooth_from_grid
from rankmixup.ops import as_tensor, check_unit


def noise_floor(values: Float[Tensor, " R"], observed: float) -> NoiseFloor:
    """Mean, central 95 % range and p-value of `observed` from the values that calibrated models showed.

    >>> noise_floor(torch.tensor([0.01, 0.02, 0.03], dtype=torch.float64), 0.03)
    NoiseFloor(mean=0.02, low=0.0105, high=0.0295, p_value=0.5)
    """
    # Counting the observation itself keeps the p-value above 0, as a Monte Carlo test must. The tolerance is far above
    # rounding and far below one sample in a million: the observed value and its replicates are summed in different orders.
    p_value = (1 + int((values >= observed - 1e-9).sum())) / (1 + len(values))
    return NoiseFloor(values.mean().item(), *percentiles(values), p_value)


def ece_noise_floor(
    confidence: Float[Tensor, " N"], observed: float, rng: torch.Generator, *, num_bins: int = 15, replicates: int = 1000
) -> NoiseFloor:
    """Noise floor of ECE, with its 95 % range and the p-value of `observed`.

    Each replicate draws, for every sample, a right prediction with probability equal to its confidence.
    """
    confidence = check_unit("confidence", as_tensor("confidence", confidence), wait=True).detach().cpu()
    require(confidence.ndim == 1, f"confidence must have shape [N], got {list(confidence.shape)}")
    require(len(confidence) > 0, "confidence must hold at least one sample, got none")
    require_number("observed", observed)
    confidence = confidence.double().sort().values
    gaps = calibrated_gaps(confidence, Cuts.equal_width(confidence, num_bins), replicates, rng)
    return noise_floor(gaps.abs().sum(dim=1), observed)


def calibrated_gaps(confidence: Float[Tensor, " N"], cuts: Cuts, replicates: int, rng: torch.Generator) -> Float[Tensor, "R H"]:
    """Sums of confidence minus correctness between cuts, over N, of calibrated models with these sorted confidences."""
    check_replicates(replicates)
    right = torch.zeros(replicates, len(cuts.start), dtype=torch.float64)
    for first, part in zip(range(0, len(confidence), BLOCK), confidence.split(BLOCK), strict=True):
        for rows, draws in calibrated_draws(part, replicates, rng):
            right[rows] += cuts.at(cumulative(draws), first)
    return (cuts.at(cumulative(confidence)) - right).diff() / len(confidence)


_STEPS = 1024
"""Grid for replicates of smooth ECE; the observed value is taken from the same grid where the two are compared."""


def error_floors(samples: Samples, values: dict[str, float | None], replicates: int, rng: torch.Generator) -> dict[str, NoiseFloor]:
    """Noise floor of each of `values` that is such an error, from sums over calibrated models that add up over blocks of samples."""
    size, cells = len(samples), Cuts.grid(samples.confidence, _STEPS)
    all_cuts = (samples.width, samples.mass, cells)
    cuts, sizes = Cuts.joined(all_cuts), [len(each.start) for each in all_cuts]
    confident, right = torch.zeros(len(cuts.start), dtype=torch.float64), torch.zeros(replicates, len(cuts.start), dtype=torch.float64)
    shared = torch.zeros(replicates, len(cells.start), dtype=torch.float64)
    running, largest = torch.zeros(2, replicates, dtype=torch.float64)
    for first in range(0, size, BLOCK):
        confidence, last = (each[first : first + BLOCK] for each in (samples.confidence, samples.last))
        _, share = grid_cells(confidence, _STEPS)
        expected, ends = cumulative(confidence), last.nonzero().squeeze(1) + 1
        at_ends = expected.index_select(0, ends)
        confident += cuts.at(expected, first)
        shared -= cells.at(cumulative(confidence * share), first)
        for rows, draws in calibrated_draws(confidence, replicates, rng):
            drawn = cumulative(draws)
            right[rows] += cuts.at(drawn, first)
            shared[rows] += cells.at(cumulative(draws * share), first)
            if len(at_ends) > 0:
                gap = at_ends - (drawn[:, 1:] if len(at_ends) == len(confidence) else drawn.index_select(1, ends))
                lowest, highest = (end + running[rows] for end in gap.aminmax(dim=1))
                largest[rows] = largest[rows].maximum(highest).maximum(-lowest)
            running[rows] += expected[-1] - drawn[:, -1]
    width, mass, grid = zip(confident.split(sizes), right.split(sizes, dim=1), strict=True)
    count, total = (each.expand(replicates, -1) for each in (samples.width.start.diff().double(), width[0].diff()))
    bins = Bins(count, total, width[1].diff())
    # As in `residual_grid`: of each residual a share at the point above it, the rest at the one below.
    above, pad = shared.diff(), torch.nn.functional.pad
    residuals = pad((grid[1] - grid[0]).diff() - above, (0, 1)) + pad(above, (1, 0))
    found = {
        **bins.errors(),
        "aece": (mass[0] - mass[1]).diff().abs().sum(dim=1) / size,
        "ks": largest / size,
        "smooth_ece": torch.cat([smooth_from_grid(part, size, tolerance=1e-6) for part in residuals.split(64)]),
    }
    shown = values | {"smooth_ece": smooth_from_grid(residual_grid(samples.confidence, samples.right, _STEPS), size).item()}
    return {key: noise_floor(draws, value) for key, draws in found.items() if (value := shown[key]) is not None}
