"""One class against all others: which one, how well its probability is calibrated, and how well it separates the class."""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from rankmixup import random
from rankmixup.errors import InvalidInput, require, require_whole, shown
from rankmixup.evaluation.replicates import sorted_samples
from rankmixup.evaluation.results import Estimate, Metrics, Positive
from rankmixup.evaluation.scores import Scores
from rankmixup.evaluation.statistics import gap_estimate
from rankmixup.evaluation.uncertainty import CALIBRATED, MISCALIBRATED
from rankmixup.metrics.calibration import Bins, bin_top_label
from rankmixup.metrics.ties import odds_groups
from rankmixup.posthoc.platt import FLAT, fit_logistic, no_optimum

Z95 = 1.959964
_LARGEST = 1e6
"""Log-odds: larger ones than this mean the same."""


def positive_index(scores: Scores, positive: int | str | None = None) -> int | None:
    """The class that `positive` means: an index, a name, or an index as text; by default class 1 of two, and none of more."""
    classes, names = scores.scores.shape[1], scores.class_names or ()
    if positive is None:
        return 1 if classes == 2 else None
    if not isinstance(positive, str):
        return require_whole("positive", positive, least=0, most=classes - 1)
    by_name = names.index(positive) if positive in names else None
    # Longer texts are no index of anything, and Python refuses to read thousands of digits.
    by_number = int(positive) if positive.isdecimal() and len(positive) < 10 and int(positive) < classes else None
    unclear = by_name is not None and by_number is not None and by_name != by_number
    require(not unclear, f"positive must be clear, but {positive!r} is both the name of class {by_name} and the number of another")
    found = by_number if by_name is None else by_name
    if found is None:
        known = f"one of {', '.join(map(repr, names[:20]))} or " if names else ""
        raise InvalidInput(f"positive must be {known}an index in 0..{classes - 1}, got {shown(positive)}")
    return found


def positive_bins(scores: Scores, index: int, num_bins: int) -> Bins:
    """Sums over equal-width bins of the probability of one class, with the frequency of that class as accuracy."""
    return bin_top_label(scores.probs[:, index].cpu(), (scores.labels == index).double().cpu(), num_bins, scores.precision)


def describe_positive(scores: Scores, *, index: int, num_bins: int, replicates: int = 1000, seed: int = 0) -> Positive:
    """How well the probability of one class is calibrated, and how well it separates the class.

    Observed over expected and the intercept have one test and intervals of profile likelihood, which hold for few events too; the slope has
    those of Wald, and ECE those of every calibration error here.
    """
    is_positive, logits = (scores.labels == index).double().cpu(), scores.logits.double().cpu()
    others = logits.index_fill(1, torch.tensor([index]), -math.inf).logsumexp(dim=1)
    odds = (logits[:, index] - others).clamp(-_LARGEST, _LARGEST)
    probs, frequency = scores.probs[:, index].cpu(), is_positive.mean().item()
    observed_over_expected, intercept = _in_the_large(odds, is_positive)
    ece = positive_bins(scores, index, num_bins).ece().item()
    samples = sorted_samples(probs, is_positive, num_bins, precision=scores.precision)
    ece_estimate = gap_estimate(samples, "ece", ece, replicates, random.stream(seed, "positive class"))
    metrics: Metrics = {
        "observed_over_expected": observed_over_expected,
        "intercept": intercept,
        "slope": _slope(odds, is_positive),
        "ece": _judged(ece_estimate, ece_estimate.floor.p_value if ece_estimate.floor else 1.0),
        "auroc": Estimate(odds_groups(odds, is_positive).auroc().item()) if 0 < frequency < 1 else None,
    }
    tests = [each.p_value for key in ("observed_over_expected", "slope", "ece") if (each := metrics[key]) and each.p_value is not None]
    p_value = min(1.0, len(tests) * min(tests))
    name = scores.class_names[index] if scores.class_names else None
    return Positive(index, name, frequency, probs.mean().item(), metrics, p_value, _verdict(p_value))


def _verdict(p_value: float) -> str:
    return CALIBRATED if p_value >= 0.05 else MISCALIBRATED


def _judged(estimate: Estimate, p_value: float) -> Estimate:
    return replace(estimate, p_value=p_value, verdict=_verdict(p_value))


def _in_the_large(odds: Float[Tensor, " N"], is_positive: Float[Tensor, " N"]) -> tuple[Estimate | None, Estimate | None]:
    """Observed over expected events, and the shift of all log-odds with which as many are expected as observed.

    Both have the p-value of the likelihood ratio test that no shift is needed. The interval of the first is what the shifts in the interval
    of the second let expect.
    """
    events, reach = is_positive.sum().item(), odds.abs().max().item() + 50

    def expected(shift: float) -> float:
        return (odds + shift).sigmoid().sum().item()

    def deviance(shift: float) -> float:
        return 2 * (F.softplus(odds + shift) - is_positive * (odds + shift)).sum().item()

    best, now = _last(lambda shift: expected(shift) < events, -reach, reach), expected(0.0)
    least = deviance(best)
    low, high = (_last(lambda shift: deviance(shift) - least <= Z95**2, best, end) for end in (-reach, reach))
    p_value = math.erfc(math.sqrt(max(deviance(0.0) - least, 0.0) / 2))
    ratio = _judged(Estimate(events / now, expected(low) / now if events else 0.0, expected(high) / now), p_value) if now else None
    return ratio, _judged(Estimate(best, low, high), p_value) if 0 < events < len(odds) else None


def _last(holds: Callable[[float], bool], inside: float, outside: float) -> float:
    """The last number from `inside`, where it holds, towards `outside` where it does."""
    for _ in range(40):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return inside


def _slope(odds: Float[Tensor, " N"], is_positive: Float[Tensor, " N"]) -> Estimate | None:
    """Slope of the log-odds in a logistic regression on them; None where the likelihood has no maximum."""
    if no_optimum(odds, is_positive.long(), smoothed=False):
        return None
    slope, intercept, left = fit_logistic(odds, is_positive)
    probs = (slope * odds + intercept).sigmoid()
    weight = probs * (1 - probs)
    error = (weight * (odds - (weight * odds).sum() / weight.sum()).square()).sum().rsqrt().item()
    if left > FLAT or not math.isfinite(error):
        return None
    return _judged(Estimate(slope, slope - Z95 * error, slope + Z95 * error), math.erfc(abs(slope - 1) / error / math.sqrt(2)))
