"""Replicates of classwise ECE from one pass over the scores: calibrated models for its noise floor, noise of its gaps for its interval."""

from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from rankmixup import random
from rankmixup.evaluation.intervals import Inverted, inverted_interval
from rankmixup.evaluation.results import NoiseFloor
from rankmixup.metrics.rows import Rows, above_first_bin, bin_index

_DENSE = 1 << 25
"""Cells of all replicates up to which each is counted; beyond, only the cells that a label falls into are kept."""
_MOST_CELLS = 1 << 18
"""Cells up to which there is an interval: the noise of all of them is held at once."""


class ClassReplicates:
    """Sums over the cells of every class and bin; rows of scores are added one chunk after the other."""

    def __init__(self, classes: int, num_bins: int, samples: int, replicates: int, seed: int):
        cells, self.samples = classes * num_bins, samples
        self.labels = _DrawnLabels(cells, samples, replicates, random.stream(seed, "labels"))
        self.signs = SignFlips(cells, replicates, random.stream(seed, "signs")) if cells <= _MOST_CELLS else None
        self.gaps = torch.zeros(classes, num_bins, dtype=torch.float64)
        """Sums of probability minus label."""

    def add(self, rows: Rows) -> None:
        """Add some samples."""
        self.gaps += rows.class_gaps(self.gaps.shape[1]).cpu()
        for probs, target in zip(rows.probabilities.cpu().split(2048), rows.target.cpu().split(2048), strict=True):
            cells = Cells(probs, target, self.gaps.shape[1], rows.precision)
            self.labels.add(cells)
            if self.signs is not None:
                self.signs.add(cells)

    def calibrated(self) -> Float[Tensor, " R"]:
        """Summed classwise ECE of calibrated models."""
        return self.labels.errors(self.gaps.flatten()) / self.samples

    def interval(self, floor: NoiseFloor) -> Inverted | None:
        """Interval of the sum of classwise ECE by test inversion; None where there are too many cells."""
        if self.signs is None:
            return None
        noise, norm = self.signs.noise / self.samples, partial(torch.linalg.vector_norm, ord=1, dim=-1)
        some = noise.abs().amax(dim=1) > 0
        return inverted_interval(self.gaps.flatten()[some].float() / self.samples, noise[some].T.contiguous(), norm, floor)


class Cells:
    """Some samples, and the cells that their labels and their few probabilities above the first bin fall into."""

    def __init__(self, probs: Float[Tensor, "n K"], target: Int[Tensor, " n"], num_bins: int, precision: torch.dtype = torch.float64):
        self.probs, self.num_bins, self.precision = probs, num_bins, precision
        self.label = self.of(target.unsqueeze(1)).squeeze(1)
        self.above, self.place, self.values = above_first_bin(probs, num_bins, precision)

    def of(self, label: Int[Tensor, "n R"]) -> Int[Tensor, "n R"]:
        """Cells of these classes of each sample."""
        return label * self.num_bins + bin_index(self.probs.gather(1, label).flatten(), self.num_bins, self.precision).view_as(label)


class _DrawnLabels:
    """Labels of calibrated models, each drawn from its own row of probabilities.

    Fewer than `replicates` models, never fewer than 100, where there are so many samples that all would take minutes.
    """

    def __init__(self, cells: int, samples: int, replicates: int, rng: torch.Generator):
        self.rng = rng
        self.replicates = min(replicates, max(100, 7_500_000 // samples))
        self.dense = self.replicates * cells <= _DENSE or samples >= cells
        self.counts = torch.zeros(self.replicates if self.dense else 0, cells)
        self.hits, self.observed = list[Tensor](), torch.zeros(cells, dtype=torch.float64)

    def add(self, cells: Cells) -> None:
        """Add some samples."""
        self.observed += torch.bincount(cells.label, minlength=len(self.observed))
        edges = cells.probs.cumsum(dim=1)
        draws = torch.rand(len(edges), self.replicates, generator=self.rng, dtype=torch.float64) * edges[:, -1:]
        hit = cells.of(torch.searchsorted(edges, draws, right=True).clamp(max=edges.shape[1] - 1)).T
        if self.dense:
            self.counts.scatter_add_(1, hit, torch.ones(1, 1).expand_as(hit))
        else:
            self.hits.append(hit.int())

    def errors(self, gaps: Float[Tensor, " C"]) -> Float[Tensor, " R"]:
        """Sum over cells of how far each model's labels are from their expected number; `gaps` are those of the observed labels."""
        expected = gaps + self.observed
        if self.dense:
            return (expected - self.counts.double()).abs().sum(dim=1)
        # Where no label falls, the gap is the expected sum itself.
        rows = (row.unique(return_counts=True) for row in torch.cat(self.hits, dim=1))
        return expected.sum() + torch.stack([((expected[cell] - count).abs() - expected[cell]).sum() for cell, count in rows])


class SignFlips:
    """Noise of the gaps of every class and bin, by the wild bootstrap: all residuals of a sample get the same random sign.

    Unlike resampling it has the right noise also in cells of a single sample, of which many classes have many.
    """

    def __init__(self, cells: int, replicates: int, rng: torch.Generator):
        self.rng = rng
        self.noise = torch.zeros(cells, min(replicates, 200))

    def add(self, cells: Cells) -> None:
        """Add some samples."""
        classes, signs = cells.probs.shape[1], 2 * self.bits(len(cells.probs)).float() - 1
        self.noise.index_add_(0, cells.label, signs, alpha=-1)
        self.noise.index_add_(0, cells.place, signs.index_select(0, cells.above // classes) * cells.values.float().unsqueeze(1))
        small = cells.probs.float()
        small.view(-1).index_fill_(0, cells.above, 0.0)
        self.noise.view(classes, cells.num_bins, -1)[:, 0] += small.T @ signs

    def bits(self, rows: int) -> UInt8[Tensor, "n R"]:
        """Zeros and ones, eight from each random number."""
        replicates = self.noise.shape[1]
        drawn = torch.randint(256, (rows, -(-replicates // 8)), generator=self.rng, dtype=torch.uint8)
        return torch.from_numpy(np.unpackbits(drawn.numpy(), axis=1, count=replicates))
