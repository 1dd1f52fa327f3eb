"""Replicates as matrices: a statistic of many replicates is a product with, or a cumulative sum of, a chunk of rows.

Samples are sorted by confidence. `assign` `[N, H]` holds the share of each sample in each bin, so that the sums over bins of
a whole chunk of replicates are one matrix product.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup.errors import require
from rankmixup.metrics.calibration import bin_index

__all__ = ["bootstrap_weights", "calibrated_draws", "equal_mass", "equal_width"]

_CHUNK = 1 << 19
"""Entries of a chunk: a few megabytes, which stay in the cache, whatever N is."""


def _rows(samples: int, replicates: int) -> Iterator[int]:
    require(replicates >= 1, f"replicates must be at least 1, got {replicates}")
    step = max(1, _CHUNK // samples)
    return (min(step, replicates - start) for start in range(0, replicates, step))


def bootstrap_weights(samples: int, replicates: int, rng: torch.Generator) -> Iterator[Float[Tensor, "r N"]]:
    """How often each sample is drawn in each bootstrap replicate, in chunks of rows."""
    one = torch.ones(1, 1)
    for rows in _rows(samples, replicates):
        drawn = torch.randint(samples, (rows, samples), generator=rng)
        yield torch.zeros(rows, samples).scatter_add_(1, drawn, one.expand(rows, samples))


def calibrated_draws(confidence: Float[Tensor, " N"], replicates: int, rng: torch.Generator) -> Iterator[Float[Tensor, "r N"]]:
    """Right (1.0) with probability equal to the confidence, else wrong (0.0), in chunks of rows."""
    confidence = confidence.float()
    for rows in _rows(len(confidence), replicates):
        yield (torch.rand(rows, len(confidence), generator=rng) < confidence).float()


def equal_width(confidence: Float[Tensor, " N"], num_bins: int) -> Float[Tensor, "N H"]:
    """Share of each sample in each right-closed equal-width bin: 1 in its own, 0 elsewhere."""
    return torch.nn.functional.one_hot(bin_index(confidence, num_bins), num_bins).double()


def equal_mass(tie: Float[Tensor, " N"], num_bins: int) -> Float[Tensor, "N H"]:
    """Share of each of the sorted samples in each of `num_bins` bins cut by rank; samples of equal `tie` share theirs.

    >>> equal_mass(torch.tensor([0.5, 0.7, 0.7, 0.9]), 2).tolist()
    [[1.0, 0.0], [0.5, 0.5], [0.5, 0.5], [0.0, 1.0]]
    """
    _, group, sizes = tie.unique_consecutive(return_inverse=True, return_counts=True)
    bins = torch.arange(len(tie)) * num_bins // len(tie)
    members = torch.bincount(group * num_bins + bins, minlength=len(sizes) * num_bins).view(-1, num_bins)
    return (members.double() / sizes[:, None])[group]
