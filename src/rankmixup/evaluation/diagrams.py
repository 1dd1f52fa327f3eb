"""What figures show of scores, as plain numbers. Several runs of one model are pooled."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from rankmixup.errors import require
from rankmixup.evaluation.positive import positive_bins
from rankmixup.evaluation.scores import Scores
from rankmixup.metrics.calibration import Bins, bin_top_label
from rankmixup.metrics.ood import OODKind, ood_scores
from rankmixup.metrics.ranking import confidence_by_lambda
from rankmixup.metrics.selective import risk_coverage
from rankmixup.metrics.ties import tie_groups
from rankmixup.ops import confidence

Numbers = NDArray[np.float64]


def pooled_top_label(runs: Sequence[Scores]) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
    """Confidence of each prediction of all runs together, and whether it is right (1.0 or 0.0)."""
    tops = [scores.probs.double().max(dim=1) for scores in runs]
    correct = [(top.indices == scores.labels).double() for top, scores in zip(tops, runs, strict=True)]
    return torch.cat([top.values for top in tops]).cpu(), torch.cat(correct).cpu()


@dataclass(frozen=True)
class Reliability:
    """Equal-width bins of confidence; in an empty bin, everything but `count` means nothing."""

    count: Numbers
    confidence: Numbers
    """Mean confidence of each bin."""
    accuracy: Numbers
    low: Numbers
    """Ends of the 95 % interval of each accuracy (Clopper and Pearson)."""
    high: Numbers
    calibrated_low: Numbers
    """Ends of the range in which the accuracy of a calibrated model lies in 95 % of draws."""
    calibrated_high: Numbers
    ece: float
    oe: float
    ue: float
    positive: bool = False
    """Whether these are the probability and the frequency of one class, and not the confidence and accuracy of predictions."""


def reliability(runs: Sequence[Scores], num_bins: int = 15, *, positive: int | None = None) -> Reliability:
    """Accuracy against confidence; with `positive`, the frequency of that class against its probability.

    The range of a calibrated model is that of binomial quantiles around the mean confidence of the bin; confidences that differ within
    the bin make the true one a little narrower.
    """
    from scipy.stats import beta, binom

    bins = bin_top_label(*pooled_top_label(runs), num_bins, runs[0].precision)
    if positive is not None:
        bins = Bins(*torch.stack([positive_bins(scores, positive, num_bins).sums for scores in runs]).sum(dim=0))
    count, correct, accuracy, mean = (each.numpy() for each in (bins.count, bins.correct, bins.accuracy, bins.mean_confidence))
    some = np.maximum(count, 1)
    # With none or all right, the Beta distribution has no mass to take a quantile of: the interval reaches the border.
    low = np.where(correct > 0, beta.ppf(0.025, np.maximum(correct, 1), count - correct + 1), 0.0)
    high = np.where(correct < count, beta.ppf(0.975, correct + 1, np.maximum(count - correct, 1)), 1.0)
    bottom, top = (binom.ppf(level, some, mean.clip(0, 1)) / some for level in (0.025, 0.975))
    ece, oe, ue = (each.item() for each in (bins.ece(), bins.oe(), bins.ue()))
    return Reliability(count, mean, accuracy, low, high, bottom, top, ece, oe, ue, positive is not None)


class ConfidenceHistogram(NamedTuple):
    """Confidence of right and of wrong predictions, each as shares of its own kind."""

    edges: Numbers
    right: Numbers
    wrong: Numbers
    right_count: int
    wrong_count: int
    accuracy: float
    mean_confidence: float


def confidence_histogram(runs: Sequence[Scores], num_bins: int = 20) -> ConfidenceHistogram:
    """How confident right and wrong predictions are."""
    confidences, correct = pooled_top_label(runs)
    bins = bin_top_label(confidences, correct, num_bins, runs[0].precision)
    right, wrong = bins.correct.numpy(), (bins.count - bins.correct).numpy()
    edges, rights, wrongs = np.arange(num_bins + 1) / num_bins, int(right.sum()), int(wrong.sum())
    shares = right / max(rights, 1), wrong / max(wrongs, 1)
    return ConfidenceHistogram(edges, *shares, rights, wrongs, correct.mean().item(), confidences.mean().item())


def risk_coverage_curve(runs: Sequence[Scores]) -> tuple[Numbers, Numbers]:
    """Shares of predictions that are kept, and the error among these most confident ones: at most 150 points, spread evenly."""
    risk = risk_coverage(tie_groups(*pooled_top_label(runs)))
    kept = torch.linspace(0, len(risk) - 1, min(150, len(risk))).round().long()  # more could not be seen
    return ((kept + 1).double() / len(risk)).numpy(), risk[kept].numpy()


class TemperatureCurve(NamedTuple):
    """NLL and ECE of logits that are divided by each temperature."""

    temperatures: Sequence[float]
    nll: list[float]
    ece: list[float]
    fitted: float | None = None
    """The temperature that was fitted on held-out data."""


def temperature_curve(
    logits: Float[Tensor, "N K"],
    target: Int[Tensor, " N"],
    temperatures: Sequence[float] | None = None,
    *,
    fitted: float | None = None,
    num_bins: int = 15,
) -> TemperatureCurve:
    """NLL and ECE of `logits / T` for each temperature, by default 41 of them around 1 and the fitted one.

    >>> curve = temperature_curve(torch.tensor([[2.0, 0.0]] * 4), torch.tensor([0, 0, 0, 1]), [2 / math.log(3)])
    >>> round(curve.nll[0], 4), round(curve.ece[0], 4)  # entropy of (3/4, 1/4), and calibrated
    (0.5623, 0.0)
    """
    if temperatures is None:
        middle = fitted or 1.0
        temperatures = np.geomspace(min(0.4, 0.5 * middle), max(2.5, 2 * middle), 41).tolist()
    logits, target = logits.cpu(), target.cpu()
    top, prediction = logits.max(dim=1)
    # Differences to the largest logit, once: a temperature then costs one exponential of each.
    below = logits - top.unsqueeze(1)
    own = below.gather(1, target.unsqueeze(1)).squeeze(1).double()
    correct = (prediction == target).double()
    nll, ece = [], []
    for temperature in temperatures:
        total = torch.cat([(part / temperature).exp_().sum(dim=1, dtype=torch.float64) for part in below.split(4096)])
        nll.append((total.log() - own / temperature).mean().item())
        ece.append(bin_top_label(1 / total, correct, num_bins).ece().item())
    return TemperatureCurve(temperatures, nll, ece, fitted)


class ScoreDensities(NamedTuple):
    """Histograms of OOD scores over the same edges, the test set's first; each has area 1."""

    score: OODKind
    edges: Numbers
    densities: dict[str, Numbers]
    sizes: dict[str, int]


def score_densities(test: Scores, unknown: Mapping[str, Scores], score: OODKind = "entropy", num_bins: int = 40) -> ScoreDensities:
    """Densities of the OOD scores of the test set and of sets of unknown samples."""
    sets = {"test set": test, **unknown}
    values = {name: ood_scores(each.logits, score).detach().cpu().double().numpy() for name, each in sets.items()}
    for name, each in values.items():
        require(bool(np.isfinite(each).all()), f"{score} scores of {name} must be finite, one is not")
    low, high = min(each.min() for each in values.values()), max(each.max() for each in values.values())
    edges = np.linspace(low, high if high > low else low + 1, num_bins + 1)
    densities = {name: np.histogram(each, edges)[0] / (len(each) * (edges[1] - edges[0])) for name, each in values.items()}
    return ScoreDensities(score, edges, densities, {name: len(each) for name, each in values.items()})


def lambda_curve(runs: Sequence[tuple[Tensor, Tensor, Tensor]], num_bins: int = 10) -> list[float | None]:
    """Mean confidence of mixed samples in equal bins of lambda from 0.5 to 1, and last that of raw samples; None where a bin is empty.

    Args:
        runs: logits of mixed samples `[M, K]`, their lambda `[M]` and logits of raw samples `[N, K]`, for each run; the mean over runs
            is taken.
        num_bins: bins of lambda.
    """
    curves = []
    for mixed, lam, raw in runs:
        _, means = confidence_by_lambda(confidence(mixed.double()), lam.double(), num_bins=num_bins)
        curves.append([*means.tolist(), confidence(raw).mean().item()])
    mean = torch.tensor(curves, dtype=torch.float64).nanmean(dim=0).tolist()
    return [None if math.isnan(value) else value for value in mean]
