"""Replicates of sorted samples, a block of samples and a few replicates at a time, so that memory does not grow with either.

Samples are sorted by confidence: bins are runs of them, and the sum over a bin is the difference of a cumulative sum at its two ends.
Sums at such cuts add up over blocks.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rankmixup.errors import require, require_whole, shown
from rankmixup.metrics.rows import bin_edges

BLOCK = 1 << 17
"""Samples of a block."""
MOST_REPLICATES = 1_000_000
"""More take hours and tell nothing more."""
_CHUNK = 1 << 19
"""Entries of a chunk: a few megabytes, which stay in the cache."""


class Cuts(NamedTuple):
    """Places among sorted samples; a place within a run of ties takes a share of the whole run."""

    start: Int[Tensor, " P"]
    end: Int[Tensor, " P"]
    share: Float[Tensor, " P"]

    @classmethod
    def plain(cls, place: Int[Tensor, " P"]) -> "Cuts":
        """Cuts that part no ties."""
        return cls(place, place, torch.zeros(len(place), dtype=torch.float64))

    @classmethod
    def equal_width(cls, confidence: Float[Tensor, " N"], num_bins: int, precision: torch.dtype = torch.float64) -> "Cuts":
        """The ends of right-closed equal-width bins, of sorted samples. For `precision` see `bin_edges`.

        >>> Cuts.equal_width(torch.tensor([0.4, 0.6, 0.7], dtype=torch.float64), 2).start
        tensor([0, 1, 3])
        """
        inner = torch.searchsorted(confidence, bin_edges(num_bins, precision), right=True)
        return cls.plain(torch.nn.functional.pad(torch.nn.functional.pad(inner, (1, 0)), (0, 1), value=len(confidence)))

    @classmethod
    def grid(cls, confidence: Float[Tensor, " N"], cells: int) -> "Cuts":
        """The ends of cells of equal width, closed on the left, of sorted samples."""
        inner = torch.searchsorted(confidence, torch.arange(cells, dtype=torch.float64) / cells)
        return cls.plain(torch.nn.functional.pad(inner, (0, 1), value=len(confidence)))

    @classmethod
    def equal_mass(cls, last: Bool[Tensor, " N"], num_bins: int) -> "Cuts":
        """The ends of `num_bins` bins cut by rank; `last` marks the last sample of each run of ties, which share their bins.

        >>> Cuts.equal_mass(torch.tensor([True, False, True, True]), 2).share  # 0.5, then 0.7 twice, then 0.9
        tensor([0.0000, 0.5000, 0.0000], dtype=torch.float64)
        """
        size = len(last)
        place = -(-torch.arange(num_bins + 1) * size // num_bins)
        # Only the runs around each cut are looked for: the ends of all runs may be as many as the samples.
        start, end = place.clone(), place.clone()
        for index, cut in enumerate(place.tolist()):
            if 0 < cut < size and not last[cut - 1]:
                before = last[: cut - 1].nonzero()
                start[index] = before[-1, 0] + 1 if len(before) > 0 else 0
                end[index] = cut + last[cut:].to(torch.uint8).argmax() + 1
        return cls(start, end, (place - start).double() / (end - start).clamp(min=1))

    @classmethod
    def joined(cls, parts: Sequence["Cuts"]) -> "Cuts":
        """All cuts of several."""
        return cls(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def at(self, sums: Float[Tensor, "*r n"], first: int = 0) -> Float[Tensor, "*r P"]:
        """Sum of everything before each cut, from the `cumulative` sums of a block that begins at sample `first`."""
        start, end = ((place - first).clamp(0, sums.shape[-1] - 1) for place in (self.start, self.end))
        below = sums.index_select(-1, start).double()
        return below + self.share * (sums.index_select(-1, end) - below)


def cumulative(values: Float[Tensor, "*r n"]) -> Float[Tensor, "*r m"]:
    """Sums of the first 0, 1, ..., n values."""
    sums = values.new_empty(*values.shape[:-1], values.shape[-1] + 1)
    sums[..., 0] = 0
    torch.cumsum(values, dim=-1, out=sums[..., 1:])
    return sums


def check_replicates(replicates: int) -> None:
    """Refuse what is not a number of replicates."""
    require_whole("replicates", replicates, least=1, most=MOST_REPLICATES)


def _rows(samples: int, replicates: int, rng: torch.Generator) -> Iterator[slice]:
    check_replicates(replicates)
    require(isinstance(rng, torch.Generator), f"rng must be a torch.Generator, got {shown(rng)}")
    step = max(1, _CHUNK // samples)
    return (slice(start, min(start + step, replicates)) for start in range(0, replicates, step))


def bootstrap_weights(
    samples: int, replicates: int, rng: torch.Generator, draws: Int[Tensor, " R"] | None = None
) -> Iterator[tuple[slice, Float[Tensor, "r N"]]]:
    """How often each sample is drawn in each bootstrap replicate, in chunks of rows; in all as often as there are samples, or `draws`."""
    for rows in _rows(samples, replicates, rng):
        size = rows.stop - rows.start
        weights = torch.zeros(size, samples)
        if draws is None:
            drawn = torch.randint(samples, (size, samples), generator=rng)
            weights.scatter_add_(1, drawn, torch.ones(1, 1).expand(size, samples))
        else:
            for row, times in zip(weights, draws[rows].tolist(), strict=True):
                row.copy_(torch.bincount(torch.randint(samples, (times,), generator=rng), minlength=samples))
        yield rows, weights


def block_draws(sizes: list[int], replicates: int, rng: torch.Generator) -> Int[Tensor, "R B"]:
    """How many samples of each block a bootstrap replicate draws: multinomial, one binomial after the other."""
    left, samples, drawn = torch.full((replicates,), sum(sizes), dtype=torch.float64), sum(sizes), []
    for size in sizes[:-1]:
        drawn.append(torch.binomial(left, torch.full_like(left, size / samples), generator=rng))
        left, samples = left - drawn[-1], samples - size
    return torch.stack([*drawn, left], dim=1).long()


def calibrated_draws(
    confidence: Float[Tensor, " N"], replicates: int, rng: torch.Generator
) -> Iterator[tuple[slice, Float[Tensor, "r N"]]]:
    """Right (1.0) with probability equal to the confidence, else wrong (0.0), in chunks of rows."""
    confidence = confidence.float()
    for rows, drawn in uniform_draws(len(confidence), replicates, rng):
        yield rows, (drawn < confidence).float()


def uniform_draws(samples: int, replicates: int, rng: torch.Generator) -> Iterator[tuple[slice, Float[Tensor, "r N"]]]:
    """Uniform numbers in [0, 1) for each sample, in chunks of rows."""
    for rows in _rows(samples, replicates, rng):
        yield rows, torch.rand(rows.stop - rows.start, samples, generator=rng)
