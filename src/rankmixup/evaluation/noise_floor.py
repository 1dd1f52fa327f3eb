"""What a calibration error shows by chance: the noise floor, by consistency resampling."""

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup.errors import require, require_number
from rankmixup.evaluation.resampling import BLOCK, Cuts, calibrated_draws, check_replicates, cumulative, equal_width
from rankmixup.evaluation.results import NoiseFloor, percentiles
from rankmixup.metrics.rows import bin_index
from rankmixup.ops import as_tensor, check_unit

__all__ = ["NoiseFloor", "calibrated_gaps", "classwise_noise_floor", "ece_noise_floor", "noise_floor"]


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
    confidence: Float[Tensor, " N"],
    observed: float,
    rng: torch.Generator,
    *,
    num_bins: int = 15,
    replicates: int = 1000,
) -> NoiseFloor:
    """Noise floor of ECE, with its 95 % range and the p-value of `observed`.

    Each replicate draws, for every sample, a right prediction with probability equal to its confidence.
    """
    confidence = check_unit("confidence", as_tensor("confidence", confidence), wait=True).detach().cpu()
    require(confidence.ndim == 1, f"confidence must have shape [N], got {list(confidence.shape)}")
    require(len(confidence) > 0, "confidence must hold at least one sample, got none")
    require_number("observed", observed)
    confidence = confidence.double().sort().values
    gaps = calibrated_gaps(confidence, equal_width(confidence, num_bins), replicates, rng)
    return noise_floor(gaps.abs().sum(dim=1), observed)


def calibrated_gaps(confidence: Float[Tensor, " N"], cuts: Cuts, replicates: int, rng: torch.Generator) -> Float[Tensor, "R H"]:
    """Sums of confidence minus correctness between cuts, over N, of calibrated models with these sorted confidences."""
    check_replicates(replicates)
    right = torch.zeros(replicates, len(cuts.start), dtype=torch.float64)
    for first, part in zip(range(0, len(confidence), BLOCK), confidence.split(BLOCK), strict=True):
        right += torch.cat([cuts.at(cumulative(draws), first) for draws in calibrated_draws(part, replicates, rng)])
    return (cuts.at(cumulative(confidence)) - right).diff() / len(confidence)


_CLASSWISE_DRAWS = 20_000_000
"""Labels drawn in all for the floor of classwise ECE, which costs a search among K classes for each."""


_DENSE = 1 << 25
"""Cells of all replicates up to which each is counted; beyond, only the cells that a label falls into are kept."""


def classwise_noise_floor(
    parts: Iterable[Tensor], samples: int, num_bins: int, replicates: int, rng: torch.Generator
) -> Float[Tensor, " R"]:
    """Summed classwise ECE of calibrated models: every label is drawn from its own row of probabilities.

    `parts` hold `samples` rows `[n, K]` in all. Fewer than `replicates` values, never fewer than 100, come back where there are so many
    samples that all would take minutes.
    """
    replicates = min(replicates, max(100, _CLASSWISE_DRAWS // samples))
    expected, counts, hits = torch.zeros(0, dtype=torch.float64), torch.zeros(0), []
    for part in parts:
        classes = part.shape[1]
        cells = classes * num_bins
        dense = replicates * cells <= _DENSE or samples >= cells
        if len(expected) == 0:
            expected, counts = torch.zeros(cells, dtype=torch.float64), torch.zeros(replicates if dense else 0, cells)
        for probs in part.split(max(1, (1 << 20) // max(classes, replicates))):
            cell = bin_index(probs.flatten(), num_bins).view_as(probs) + torch.arange(classes) * num_bins
            expected.index_add_(0, cell.flatten(), probs.flatten())
            edges = probs.cumsum(dim=1)
            draws = torch.rand(len(probs), replicates, generator=rng, dtype=torch.float64) * edges[:, -1:]
            label = torch.searchsorted(edges, draws, right=True).clamp(max=classes - 1)
            hit = cell.gather(1, label).T
            if dense:
                counts.scatter_add_(1, hit, torch.ones(1, 1).expand_as(hit))
            else:
                hits.append(hit.int())
    if len(counts) > 0:
        return (expected - counts.double()).abs().sum(dim=1) / samples
    # Where no label falls, the gap is the expected sum itself.
    values = []
    for row in torch.cat(hits, dim=1):
        cell, count = row.unique(return_counts=True)
        values.append(((expected[cell] - count).abs() - expected[cell]).sum())
    return (expected.sum() + torch.stack(values)) / samples
