"""How far a metric can be believed: interval, noise floor, p-value and verdict for every metric of one set of scores."""

from math import sqrt
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankmixup.errors import require
from rankmixup.evaluation.error_floors import error_floors
from rankmixup.evaluation.intervals import scaled_interval
from rankmixup.evaluation.noise_floor import NoiseFloor, classwise_noise_floor, ece_noise_floor, noise_floor
from rankmixup.evaluation.replicates import Bootstrap, Samples, bootstrap, read_samples, sorted_samples
from rankmixup.evaluation.significance import Comparison, Interval, holm, mcnemar, over_seeds, paired_comparison
from rankmixup.evaluation.statistics import GAP_KEYS, gap_interval
from rankmixup.evaluation.suite import values_of
from rankmixup.metrics.calibration import bin_top_label
from rankmixup.metrics.inputs import checked_rows

__all__ = [
    "CALIBRATED",
    "MISCALIBRATED",
    "Comparison",
    "Interval",
    "NoiseFloor",
    "Uncertain",
    "ece_noise_floor",
    "ece_uncertainty",
    "holm",
    "mcnemar",
    "metric_uncertainty",
    "over_seeds",
    "paired_comparison",
]

CALIBRATED = "not distinguishable from calibrated"
MISCALIBRATED = "miscalibrated"
FEW = 30
"""A maximum that a bin of fewer samples decides is no evidence of calibration: that accuracy's standard error is up to 0.09."""


class Uncertain(NamedTuple):
    """A metric, its 95 % interval and, for an error of calibration, what calibrated models show."""

    value: float
    low: float | None
    high: float | None
    floor: NoiseFloor | None
    p_value: float | None
    """Of "this model is calibrated"."""
    verdict: str | None


def metric_uncertainty(
    logits: Float[Tensor, "N K"],
    target: Int[Tensor, " N"],
    *,
    from_logits: bool = True,
    num_bins: int = 15,
    replicates: int = 1000,
    rng: torch.Generator,
) -> dict[str, Uncertain]:
    """Every metric that is defined, with what is known of its uncertainty.

    Accuracies have Wilson's intervals; NLL, Brier, AURC, E-AURC and AUROC have percentile bootstrap intervals. ECE, its L2 and
    maximum norms, AECE, OE, UE and KS are biased upwards and have intervals by test inversion (see
    `rankmixup.evaluation.intervals`); debiased ECE estimates what the L2 norm does and shares its interval. Smooth and classwise
    ECE have a floor and a p-value but no interval; nor has anything but the accuracies and means where all predictions are right or
    all wrong, since the bootstrap then sees no noise at all.
    The roughest interval is that of the maximum: which bin holds it is itself uncertain. Where that bin holds fewer than `FEW` samples, the
    verdict is never "not distinguishable from calibrated" but "rests on a bin of 3 samples".
    An interval may reach down to 0 beside the verdict "miscalibrated": it cuts 2.5 % off each side, the test 5 % off one.
    """
    class_gaps: list[Tensor] = []
    samples = read_samples(logits, target, num_bins=num_bins, from_logits=from_logits, class_gaps=class_gaps)
    values = values_of(samples, class_gaps)
    (draws,) = bootstrap([samples], replicates, rng)
    floors = error_floors(samples, values, replicates, rng)
    parts = (rows.probabilities.cpu() for rows in checked_rows(logits, target, from_logits=from_logits))
    classwise = classwise_noise_floor(parts, len(samples), num_bins, replicates, rng)
    for key, scale in (("classwise_ece", logits.shape[1]), ("classwise_ece_sum", 1)):
        if (value := values[key]) is not None:
            floors[key] = noise_floor(classwise / scale, value)
    ends = {key: _wilson(column) if key.endswith("accuracy") else _percentiles(draws.means[key]) for key, column in samples.means.items()}
    if not samples.unanimous:
        ends |= {key: _percentiles(draw) for key, draw in draws.ranked.items()} | _error_intervals(samples, draws, floors, values)
    found = {key: _uncertain(value, *ends.get(key, (None, None)), floors.get(key)) for key, value in values.items() if value is not None}
    count = samples.width.start.diff()
    deciding = int(count[(samples.gaps(samples.width).abs() / count.clamp(min=1)).argmax()])
    if found["mce"].verdict == CALIBRATED and deciding < FEW:
        found["mce"] = found["mce"]._replace(verdict=f"rests on a bin of {deciding} sample{'s' if deciding > 1 else ''}")
    return found


def ece_uncertainty(
    confidence: Float[Tensor, " N"],
    correct: Float[Tensor, " N"],
    *,
    num_bins: int = 15,
    replicates: int = 1000,
    rng: torch.Generator,
) -> Uncertain:
    """ECE alone, from confidences and correctness (1.0 or 0.0), with its interval by test inversion, floor and p-value.

    There is no interval where all predictions are right or all wrong.

    >>> from rankmixup import random
    >>> confidence = torch.full((1000,), 0.8)
    >>> found = ece_uncertainty(confidence, (torch.arange(1000) < 790).float(), rng=random.stream(0))
    >>> round(found.value, 4), found.low, found.verdict
    (0.01, 0.0, 'not distinguishable from calibrated')
    """
    require(len(confidence) > 0, "confidence must hold at least one sample, got none")
    require(confidence.shape == correct.shape, f"confidence and correct must be equally long, got {len(confidence)} and {len(correct)}")
    samples = sorted_samples(confidence, correct, num_bins)
    value = bin_top_label(confidence, correct, num_bins).ece().item()
    (draws,) = bootstrap([samples], replicates, rng, ranked=False)
    floor = ece_noise_floor(confidence, value, rng, num_bins=num_bins, replicates=replicates)
    if samples.unanimous:
        return _uncertain(value, None, None, floor)
    interval = gap_interval(samples, "ece", draws, floor)
    return _uncertain(value, interval.low, interval.high, floor)


def _uncertain(value: float, low: float | None, high: float | None, floor: NoiseFloor | None) -> Uncertain:
    if floor is None:
        return Uncertain(value, low, high, None, None, None)
    return Uncertain(value, low, high, floor, floor.p_value, CALIBRATED if floor.p_value >= 0.05 else MISCALIBRATED)


def _wilson(right: Tensor) -> tuple[float | None, float | None]:
    """Wilson's interval of a share: unlike the bootstrap's it has a width where all are right or all wrong."""
    size, share, z = len(right), right.double().mean().item(), 1.959964
    centre, margin = share + z**2 / (2 * size), z * sqrt(share * (1 - share) / size + z**2 / (4 * size**2))
    return max((centre - margin) / (1 + z**2 / size), 0.0), min((centre + margin) / (1 + z**2 / size), 1.0)


def _percentiles(values: Tensor) -> tuple[float | None, float | None]:
    """Central 95 % of the replicates; none where an NLL is infinite, as that of a probability of 0 is, or nothing varies."""
    values = values[~values.isnan()]
    if len(values) == 0 or not values.isfinite().all() or values.min() == values.max():
        return None, None
    low, high = values.quantile(torch.tensor([0.025, 0.975], dtype=values.dtype)).tolist()
    return low, high


def _error_intervals(
    samples: Samples, draws: Bootstrap, floors: dict[str, NoiseFloor], values: dict[str, float | None]
) -> dict[str, tuple[float | None, float | None]]:
    found = {key: gap_interval(samples, key, draws, floors[key]) for key in GAP_KEYS}
    found["debiased_ece"] = found["ece_l2"]
    confidence, right = samples.before(samples.ks_cuts)
    gap = (confidence - right) / len(samples)
    found["ks"] = scaled_interval(gap, draws.cumulative - gap, lambda gap: gap.abs().amax(dim=-1), floors["ks"]).at_most(1.0)
    # What was observed is within its interval; the two are summed in another order and may differ by a rounding error.
    observed = {key: interval.value if values[key] is None else values[key] or 0.0 for key, interval in found.items()}
    return {key: (min(found[key].low, value), max(found[key].high, value)) for key, value in observed.items()}
