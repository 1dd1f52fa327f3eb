"""Bootstrap replicates of every metric of one or more models on the same samples."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rankmixup.evaluation.ranked_replicates import RankedSums, WrongRuns
from rankmixup.evaluation.resampling import BLOCK, Cuts, block_draws, bootstrap_weights, check_replicates, cumulative
from rankmixup.metrics.calibration import Bins
from rankmixup.metrics.inputs import Logits, Target, checked_rows, given_precision
from rankmixup.metrics.rows import Rows, check_num_bins
from rankmixup.metrics.ties import confidence_odds, last_of_ties, tie_key

GRID_CELLS = 512
"""Points at which replicates keep the cumulative gap, for KS error, and cells of confidence in which they keep gaps, for smooth ECE."""


@dataclass(frozen=True, eq=False)
class Samples:
    """What every metric but the classwise ones needs of one model's scores, in order of confidence."""

    confidence: Float[Tensor, " N"]
    right: Bool[Tensor, " N"]
    order: Int[Tensor, " N"]
    """Where each of the sorted samples stood before."""
    last: Bool[Tensor, " N"]
    """Whether each is the last of equal confidences."""
    wrong_runs: WrongRuns
    """The runs of equal log-odds with a wrong prediction among them."""
    blocks: list[int]
    """Where blocks of samples begin, and the end of the last; none parts equal log-odds."""
    means: dict[str, Tensor]
    """Metrics that are the mean of a column."""
    width: Cuts
    mass: Cuts

    def __len__(self) -> int:
        return len(self.confidence)

    @property
    def unanimous(self) -> bool:
        """Whether all predictions are right or all wrong: the bootstrap then cannot tell how often they are."""
        return bool((self.right == self.right[0]).all())

    @cached_property
    def ks_cuts(self) -> Cuts:
        """Some ends of runs of confidences, evenly spread, and the one with the largest cumulative gap: enough for replicates of that."""
        total, ends = self.confidence - self.right.byte(), int(self.last.sum())
        largest = torch.cumsum(total, dim=0, out=total).abs_().masked_fill_(~self.last, -1).argmax()
        at = torch.linspace(0, ends - 1, min(GRID_CELLS, ends), dtype=torch.float64).round().long()
        at = at if ends == len(self) else self.last.nonzero().squeeze(1)[at]
        return Cuts.plain(torch.cat([at, largest[None]]).unique() + 1)

    @cached_property
    def grid_cuts(self) -> Cuts:
        """Cells of confidence so narrow that smooth ECE can be computed from the gaps between them."""
        return Cuts.grid(self.confidence, GRID_CELLS)

    def gaps(self, cuts: Cuts) -> Float[Tensor, " H"]:
        """Sum of the gaps between each cut and the next, over the number of samples."""
        confidence, right = self.before(cuts)
        return (confidence - right).diff() / len(self)

    def bins(self) -> Bins:
        """Sums over equal-width bins."""
        confidence, right = self.before(self.width)
        return Bins(self.width.start.diff().double(), confidence.diff(), right.diff())

    def before(self, cuts: Cuts) -> Float[Tensor, "2 P"]:
        """Sums of confidence and of correctness before each cut."""
        sums = torch.zeros(2, len(cuts.start), dtype=torch.float64)
        for start, end in pairwise(self.blocks):
            block = torch.stack([self.confidence[start:end], self.right[start:end].double()])
            sums += cuts.at(cumulative(block), start)
        return sums


def sorted_samples(
    confidence: Float[Tensor, " N"],
    correct: Float[Tensor, " N"] | Bool[Tensor, " N"],
    num_bins: int,
    log_odds: Float[Tensor, " N"] | None = None,
    means: dict[str, Tensor] | None = None,
    precision: torch.dtype = torch.float64,
) -> Samples:
    """Samples from the confidence and correctness of predictions, and from columns whose means are metrics."""
    confidence = confidence.detach().cpu().double()
    log_odds = confidence_odds(confidence) if log_odds is None else log_odds.detach().cpu()
    order = torch.from_numpy(np.argsort(log_odds.numpy()))  # torch's sort takes several times the memory
    log_odds = tie_key(log_odds)  # half as large
    last = last_of_ties(log_odds[order])
    del log_odds
    confidence, right = confidence[order], correct.detach().cpu().bool()[order]
    last_of_confidence = last_of_ties(confidence_odds(confidence))
    means = means or {}
    for key in list(means):
        means[key] = means[key].detach().cpu()[order]
    blocks = [0]
    while blocks[-1] < len(last):
        place = min(blocks[-1] + BLOCK, len(last))
        blocks.append(place if last[place - 1] else place + int(last[place:].to(torch.uint8).argmax()) + 1)
    runs = WrongRuns.of(right, last, blocks)
    cuts = (Cuts.equal_width(confidence, num_bins, precision), Cuts.equal_mass(last_of_confidence, num_bins))
    return Samples(confidence, right, order.int(), last_of_confidence, runs, blocks, means, *cuts)


def read_samples(
    scores: Logits,
    target: Target,
    *,
    num_bins: int,
    from_logits: bool,
    each: Callable[[Rows], None] = lambda rows: None,
    more: Mapping[str, Tensor] | None = None,
    part: bool = False,
) -> Samples:
    """Check the scores and reduce them to columns, with `more` columns; `each` is called with every chunk of rows."""
    check_num_bins(num_bins)
    columns: dict[str, Tensor] = {}
    filled = 0
    for rows in checked_rows(scores, target, from_logits=from_logits, part=part):
        found = {"accuracy": rows.right_within(1), **({"top5_accuracy": rows.right_within(5)} if rows.scores.shape[1] >= 5 else {})}
        found |= {"nll": rows.nll, "brier": rows.brier, "confidence": rows.confidence, "log_odds": rows.log_odds}
        # Into their place at once: joined in the end, the columns would be held twice.
        columns = columns or {key: torch.empty(len(target), dtype=values.dtype) for key, values in found.items()}
        for key, values in found.items():
            columns[key][filled : filled + len(values)] = values
        filled += len(rows.target)
        each(rows)
    confidence, log_odds = columns.pop("confidence"), columns.pop("log_odds")
    columns |= more or {}
    return sorted_samples(confidence, columns["accuracy"], num_bins, log_odds, columns, given_precision(scores, from_logits))


@dataclass(frozen=True)
class Bootstrap:
    """Values of all replicates, and for the errors the gaps that they are made of (times the share of their bin)."""

    means: dict[str, Tensor]
    width: Float[Tensor, "R H"]
    mass: Float[Tensor, "R H"]
    cumulative: Float[Tensor, "R P"]
    grid: Float[Tensor, "R G"]
    ranked: dict[str, Tensor]


def bootstrap(models: Sequence[Samples], replicates: int, rng: torch.Generator, *, ranked: bool = True) -> list[Bootstrap]:
    """The same replicates of the same samples for every model; without `ranked`, only what needs no ranks."""
    check_replicates(replicates)
    size = len(models[0])
    # Which sample of one model a weight falls on is arbitrary; that two models get it for the same one is not.
    together = len(models) > 1
    blocks = [0, size] if together else models[0].blocks
    sums = [_Sums(samples, replicates, ranked) for samples in models]
    draws = None if len(blocks) == 2 else block_draws([end - start for start, end in pairwise(blocks)], replicates, rng)
    for block, (start, end) in enumerate(pairwise(blocks)):
        parts = [each.block(start, end) for each in sums]
        for rows, weights in bootstrap_weights(end - start, replicates, rng, None if draws is None else draws[:, block]):
            for samples, part in zip(models, parts, strict=True):
                part(rows, weights[:, samples.order] if together else weights)
    return [each.result() for each in sums]


class _Sums:
    """Of one model, over all blocks."""

    def __init__(self, samples: Samples, replicates: int, ranked: bool):
        self.samples, self.ranked = samples, RankedSums(len(samples), replicates) if ranked else None
        cuts = [samples.width, samples.mass, *([samples.ks_cuts, samples.grid_cuts] if ranked else [])]
        self.sizes = [len(each.start) for each in cuts]
        self.cuts = Cuts.joined(cuts)
        self.gaps = torch.zeros(replicates, len(self.cuts.start), dtype=torch.float64)
        self.centre = {key: column.double().mean() for key, column in samples.means.items()}
        self.means = torch.zeros(replicates, len(samples.means), dtype=torch.float64)

    def block(self, start: int, end: int) -> Callable[[slice, Tensor], None]:
        """What adds the weights of some replicates of a block."""
        samples, place = self.samples, slice(start, end)
        gap = (samples.confidence[place] - samples.right[place].byte()).float()
        # Without their mean, columns lose nothing by being summed in single precision.
        centred = [(column[place].double() - self.centre[key]).float() for key, column in samples.means.items()]
        columns = torch.stack(centred, dim=1) if centred else gap.new_zeros(end - start, 0)
        runs = samples.wrong_runs.within(start, end)

        def add(rows: slice, weights: Tensor) -> None:
            self.means[rows] += weights @ columns
            self.gaps[rows] += self.cuts.at(cumulative(weights * gap), start)
            if self.ranked is not None:
                self.ranked.add(rows, weights, runs)

        return add

    def result(self) -> Bootstrap:
        size = len(self.samples)
        width, mass, *others = (self.gaps / size).split(self.sizes, dim=1)
        at_ks, grid = others or (width[:, :0], width[:, :1])
        means = {key: self.centre[key] + total / size for key, total in zip(self.samples.means, self.means.T, strict=True)}
        return Bootstrap(means, width.diff(), mass.diff(), at_ks, grid.diff(), {} if self.ranked is None else self.ranked.values())


def ranked_values(drawn: Float[Tensor, "r N"], samples: Samples) -> dict[str, Tensor]:
    """AURC, E-AURC and AUROC of every replicate, with ties as in `rankmixup.metrics.selective`."""
    sums = RankedSums(len(samples), len(drawn))
    for start, end in pairwise(samples.blocks):
        sums.add(slice(0, len(drawn)), drawn[:, start:end], samples.wrong_runs.within(start, end))
    return sums.values()
