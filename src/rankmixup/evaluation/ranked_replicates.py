"""AURC, E-AURC and AUROC of many replicates, from the runs of equal log-odds that hold a wrong prediction.

From the most confident down, let t samples come before a run of m, of which e are wrong. A wrong one is among the k most confident for
every k from its own place on, so that the run adds to N times AURC

    e (1 - t / m (H(t + m) - H(t)) + H(N) - H(t + m)),        H(n) = 1 + 1/2 + ... + 1/n,

where the wrong ones of a run are spread evenly over its places; and to the number of right predictions above a wrong one, ties by half,
e times those above it and e times half of those beside it. Runs without a wrong prediction add nothing: most samples need not be looked at.
"""

from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rankmixup.evaluation.resampling import cumulative


class WrongRuns(NamedTuple):
    """Runs of equal log-odds with a wrong prediction, in order of confidence; of all samples in 32 bits, which suffice for any.

    Neighbours that hold nothing but wrong predictions are one run: the formulas above give the same for both together.
    """

    start: Int[Tensor, " G"]
    end: Int[Tensor, " G"]
    wrong: Int[Tensor, " W"]
    """Places of the wrong predictions in runs that hold right ones too."""
    until: Int[Tensor, " G"]
    """How many of those come before the end of the run."""

    @classmethod
    def of(cls, right: Bool[Tensor, " N"], last: Bool[Tensor, " N"], blocks: list[int]) -> "WrongRuns":
        """Of sorted samples, with the last of each run marked; in blocks, since the ends of all runs may take more than the result."""
        parts, before = [], 0
        for first, stop in pairwise(blocks):
            ends = last[first:stop].nonzero().squeeze(1) + 1
            wrong = (~right[first:stop]).nonzero().squeeze(1)
            run, count = torch.searchsorted(ends, wrong, right=True).unique_consecutive(return_counts=True)
            start, end = torch.nn.functional.pad(ends, (1, 0))[run], ends[run]
            mixed = count < end - start
            joins = (start[1:] == end[:-1]) & ~mixed[1:] & ~mixed[:-1]
            opens, closes = torch.ones(2, len(run), dtype=torch.bool)
            opens[1:], closes[:-1] = ~joins, ~joins
            until = (count * mixed).cumsum(0) + before
            wrong = wrong[mixed.repeat_interleave(count)]
            parts.append([each.int() for each in (start[opens] + first, end[closes] + first, wrong + first, until[closes])])
            before += len(wrong)
        return cls(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def within(self, start: int, end: int) -> "WrongRuns":
        """Those of a block, counted from its beginning."""
        first, last = (int(torch.searchsorted(self.start, place)) for place in (start, end))
        before = int(self.until[first - 1]) if first > 0 else 0
        until = self.until[first:last].long() - before
        wrong = self.wrong[before : before + int(until[-1])] if len(until) > 0 else self.wrong[:0]
        starts, ends, wrong = (each.long() - start for each in (self.start[first:last], self.end[first:last], wrong))
        return WrongRuns(starts, ends, wrong, until)


class RankedSums:
    """Sums over blocks of samples, from the least confident up."""

    def __init__(self, samples: int, replicates: int):
        self.samples = samples
        self.harmonic = torch.arange(samples + 1, dtype=torch.float64)
        self.harmonic[1:].reciprocal_()
        torch.cumsum(self.harmonic, dim=0, out=self.harmonic)
        self.below, self.wrong, self.area, self.wins = torch.zeros(4, replicates, dtype=torch.float64)

    def add(self, rows: slice, weights: Float[Tensor, "r n"], runs: WrongRuns) -> None:
        """Add a block of samples to some replicates."""
        taken = cumulative(weights)
        ends = taken.index_select(1, runs.end).double()
        in_run = ends - taken.index_select(1, runs.start)
        wrong_in_run = in_run
        if len(runs.wrong) > 0:
            counted = cumulative(weights.index_select(1, runs.wrong)).index_select(1, torch.nn.functional.pad(runs.until, (1, 0))).diff()
            wrong_in_run = torch.where(runs.until.diff(prepend=runs.until.new_zeros(1)) > 0, counted.double(), in_run)
        until = wrong_in_run.cumsum(dim=1)
        above = self.samples - self.below[rows, None] - ends
        beyond = above.long()
        inner, outer = self.harmonic.take(beyond), self.harmonic.take(beyond + in_run.long())
        places = 1 - above / in_run.clamp(min=1) * (outer - inner) + self.harmonic[-1] - outer
        self.area[rows] += (wrong_in_run * places).sum(dim=1)
        # Of those above, as many are wrong as in the whole replicate minus those until here: the whole is known at the end.
        self.wins[rows] += (wrong_in_run * (above + self.wrong[rows, None] + until + (in_run - wrong_in_run) / 2)).sum(dim=1)
        self.below[rows] += taken[:, -1]
        self.wrong[rows] += wrong_in_run.sum(dim=1)

    def values(self) -> dict[str, Tensor]:
        """Every replicate's; NaN for the AUROC of one with no wrong or no right prediction."""
        size, errors = self.samples, self.wrong
        best = (errors - (size - errors) * (self.harmonic[-1] - self.harmonic[(size - errors).long()])) / size
        area = self.area / size
        auroc = (self.wins - errors.square()) / (errors * (size - errors))
        return {"aurc": area, "eaurc": area - best, "auroc_correct": auroc}
