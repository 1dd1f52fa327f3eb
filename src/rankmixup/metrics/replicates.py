"""Bootstrap replicates of every metric of one or more models on the same samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankmixup.metrics.inputs import checked_rows
from rankmixup.metrics.resampling import bootstrap_weights, equal_mass, equal_width
from rankmixup.metrics.ties import confidence_odds, run_ends, tie_key

__all__ = ["Bootstrap", "Samples", "bootstrap", "ranked_values", "read_samples", "sorted_samples"]

_KS_POINTS = 512
"""Points at which the replicates of the cumulative gap are kept."""


@dataclass(frozen=True, eq=False)
class Samples:
    """What every metric but the classwise ones needs of one model's scores, in order of confidence."""

    confidence: Float[Tensor, " N"]
    correct: Float[Tensor, " N"]
    order: Int[Tensor, " N"]
    """Where each of the sorted samples stood before."""
    ends: Int[Tensor, " G"]
    """Last position of every run of equal log-odds."""
    confidence_ends: Int[Tensor, " C"]
    """Last position of every run of equal confidences, of which there may be fewer."""
    means: dict[str, Tensor]
    """Metrics that are the mean of a column."""
    width: Float[Tensor, "N H"]
    """Share of each sample in each equal-width bin."""
    mass: Float[Tensor, "N H"]
    """Share of each sample in each bin of equal mass."""

    @property
    def gap(self) -> Float[Tensor, " N"]:
        """Confidence minus correctness."""
        return self.confidence - self.correct

    @property
    def unanimous(self) -> bool:
        """Whether all predictions are right or all wrong: the bootstrap then cannot tell how often they are."""
        return bool((self.correct == self.correct[0]).all())

    @cached_property
    def harmonic(self) -> Float[Tensor, " M"]:
        """Sums of 1 / k over k = 1..n, for n = 0..N."""
        inverse = 1 / torch.arange(1, len(self.confidence) + 1, dtype=torch.float64)
        return torch.cat([inverse[:0].new_zeros(1), inverse.cumsum(0)])

    @cached_property
    def ks_points(self) -> Int[Tensor, " P"]:
        """Some of the ends of runs of confidences, evenly spread, and the one with the largest cumulative gap: enough for replicates of that largest."""
        ends = self.confidence_ends
        at = torch.linspace(0, len(ends) - 1, min(_KS_POINTS, len(ends)), dtype=torch.float64).round().long()
        largest = self.gap.cumsum(0)[ends].abs().argmax()
        return ends[torch.cat([at, largest[None]]).unique()]


def sorted_samples(
    confidence: Float[Tensor, " N"],
    correct: Float[Tensor, " N"],
    num_bins: int,
    log_odds: Float[Tensor, " N"] | None = None,
    means: dict[str, Tensor] | None = None,
) -> Samples:
    """Samples from the confidence and correctness of predictions, and from columns whose means are metrics."""
    confidence = confidence.detach().cpu().double()
    rank, order = (confidence_odds(confidence) if log_odds is None else log_odds.detach().cpu()).sort()
    confidence = confidence[order]
    means = {key: column.detach().cpu().double()[order] for key, column in (means or {}).items()}
    tie = tie_key(confidence_odds(confidence))
    width, mass = equal_width(confidence, num_bins), equal_mass(tie, num_bins)
    ends = run_ends(tie_key(rank)), run_ends(tie)
    return Samples(confidence, correct.detach().cpu().double()[order], order, *ends, means, width, mass)


def read_samples(scores: Float[Tensor, "N K"], target: Int[Tensor, " N"], *, num_bins: int, from_logits: bool) -> Samples:
    """Check the scores and reduce them to a few columns."""
    top5 = scores.ndim == 2 and scores.shape[1] >= 5
    parts = []
    for rows in checked_rows(scores, target, from_logits=from_logits):
        right = rows.right_within(1)
        parts.append((rows.confidence, right, rows.log_odds, rows.right_within(5) if top5 else right, rows.nll, rows.brier))
    confidence, right, log_odds, within5, nll, brier = (torch.cat(column) for column in zip(*parts, strict=True))
    means = {"accuracy": right, "top5_accuracy": within5, "nll": nll, "brier": brier}
    if not top5:
        del means["top5_accuracy"]
    return sorted_samples(confidence, right.double(), num_bins, log_odds, means)


@dataclass(frozen=True)
class Bootstrap:
    """Values of all replicates, and for the errors the gaps that they are made of (times the share of their bin)."""

    means: dict[str, Tensor]
    width: Float[Tensor, "R H"]
    mass: Float[Tensor, "R H"]
    cumulative: Float[Tensor, "R P"]
    ranked: dict[str, Tensor]


def bootstrap(models: Sequence[Samples], replicates: int, rng: torch.Generator, *, ranked: bool = True) -> list[Bootstrap]:
    """The same replicates of the same samples for every model; without `ranked`, only what needs no cumulative sums."""
    size = len(models[0].confidence)
    columns = []
    for samples in models:
        per_bin = torch.cat([samples.width, samples.mass], dim=1) * samples.gap[:, None]
        # Without their mean, columns lose nothing by being summed in single precision.
        centred = [(column - column.mean())[:, None] for column in samples.means.values()]
        columns.append(torch.cat([*centred, per_bin], dim=1).float())
    products: list[list[Tensor]] = [[] for _ in models]
    cumulatives: list[list[Tensor]] = [[] for _ in models]
    rankings: list[list[dict[str, Tensor]]] = [[] for _ in models]
    for weights in bootstrap_weights(size, replicates, rng):
        for i, samples in enumerate(models):
            # Which sample of one model a weight falls on is arbitrary; that two models get it for the same one is not.
            drawn = weights if len(models) == 1 else weights[:, samples.order]
            products[i].append(drawn @ columns[i])
            if ranked:
                cumulatives[i].append((drawn * samples.gap.float()).cumsum(dim=1)[:, samples.ks_points])
                rankings[i].append(ranked_values(drawn, samples))
    results = []
    for i, samples in enumerate(models):
        bins = samples.width.shape[1]
        mean, width, mass = (torch.cat(products[i]).double() / size).split([len(samples.means), bins, bins], dim=1)
        cumulative = torch.cat(cumulatives[i]).double() / size if ranked else mean[:, :0]
        ranking = {key: torch.cat([part[key] for part in rankings[i]]) for key in rankings[i][0]} if ranked else {}
        means = {key: column.mean() + deviation for (key, column), deviation in zip(samples.means.items(), mean.T, strict=True)}
        results.append(Bootstrap(means, width, mass, cumulative, ranking))
    return results


def ranked_values(drawn: Float[Tensor, "r N"], samples: Samples) -> dict[str, Tensor]:
    """AURC, E-AURC and AUROC of every replicate, with ties as in `rankmixup.metrics.selective`."""
    size, harmonic = drawn.shape[1], samples.harmonic
    zero = torch.zeros(len(drawn), 1, dtype=torch.float64)
    # From the most confident down; ends of runs of ties in that order are the positions just before the next run begins.
    ends = torch.cat([size - 2 - samples.ends[:-1].flip(0), torch.tensor([size - 1])])
    taken = torch.cat([zero, drawn.flip(1).cumsum(dim=1)[:, ends].double()], dim=1)
    wrong = torch.cat([zero, (drawn * (1 - samples.correct.float())).flip(1).cumsum(dim=1)[:, ends].double()], dim=1)
    in_run, wrong_in_run = taken.diff(dim=1), wrong.diff(dim=1)
    rate = wrong_in_run / in_run.clamp(min=1)
    table = harmonic[taken.long()]
    # Sum over k of (wrong_before + (k - taken_before) * rate) / k.
    area = ((wrong[:, :-1] - taken[:, :-1] * rate) * table.diff(dim=1) + wrong_in_run).sum(dim=1) / size
    errors = wrong[:, -1]
    best = (errors - (size - errors) * (harmonic[-1] - harmonic[(size - errors).long()])) / size
    right_in_run = in_run - wrong_in_run
    wins = (right_in_run * (errors[:, None] - wrong[:, 1:] + wrong_in_run / 2)).sum(dim=1)
    # 0 / 0, a replicate with no wrong or no right prediction, is NaN and left out of quantiles.
    return {"aurc": area, "eaurc": area - best, "auroc_correct": wins / (errors * (size - errors))}
