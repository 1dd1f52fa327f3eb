"""How far a metric can be believed: interval, noise floor, p-value and verdict for every metric of one set of scores."""

from dataclasses import replace
from zlib import crc32

import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup.errors import require_flag
from rankmixup.evaluation.bca import bca_interval, ranked_influence, skewness
from rankmixup.evaluation.class_replicates import ClassReplicates
from rankmixup.evaluation.custom import custom_keys, custom_values, resampled_values
from rankmixup.evaluation.intervals import Inverted
from rankmixup.evaluation.noise_floor import error_floors, noise_floor
from rankmixup.evaluation.registry import METRICS, PASS_KEYS
from rankmixup.evaluation.replicates import Samples, bootstrap, ranked_values, read_samples
from rankmixup.evaluation.resampling import check_replicates
from rankmixup.evaluation.results import Estimate, percentiles, wilson_interval
from rankmixup.evaluation.scores import Scores
from rankmixup.evaluation.statistics import gap_interval, ks_interval, smooth_interval
from rankmixup.metrics.classwise import classwise_from_gaps
from rankmixup.metrics.inputs import Logits, Target, scores_and_labels
from rankmixup.metrics.rows import Rows, check_num_bins
from rankmixup.metrics.smooth import residual_grid, smooth_from_grid

CALIBRATED = "not distinguishable from calibrated"
MISCALIBRATED = "miscalibrated"
FEW = 30
"""A maximum that a bin of fewer samples decides is no evidence of calibration: that accuracy's standard error is up to 0.09."""


def metric_uncertainty(
    logits: Logits,
    target: Target,
    *,
    from_logits: bool = True,
    num_bins: int = 15,
    replicates: int = 1000,
    rng: torch.Generator,
    part: bool = False,
) -> dict[str, Estimate]:
    """Every metric that is defined, with what is known of its uncertainty.

    Accuracies have Wilson's intervals; NLL, Brier, AURC, E-AURC and AUROC have BCa bootstrap intervals. ECE, its L2 and
    maximum norms, AECE, OE, UE, KS, smooth and classwise ECE are biased upwards and have intervals by test inversion (see
    `rankmixup.evaluation.intervals`); debiased ECE estimates what the L2 norm does and shares its interval. Where all predictions are right
    or all wrong, only the accuracies and means have an interval: the bootstrap then sees no noise at all.
    The roughest interval is that of the maximum: which bin holds it is itself uncertain. Where that bin holds fewer than `FEW` samples, the
    verdict is never "not distinguishable from calibrated" but "rests on a bin of 3 samples".
    With `part`, rows of larger scores are not taken for probabilities, as in `Scores`.
    An interval may reach down to 0 beside the verdict "miscalibrated": it cuts 2.5 % off each side, the test 5 % off one.
    """
    check_num_bins(num_bins)
    check_replicates(replicates)
    # glibc gives blocks back to the system until it has freed one of their size, and the system clears each page again. This block is
    # never written to, so it costs nothing, and makes the first evaluation in a process as fast as the next.
    torch.empty(31 << 20, dtype=torch.uint8)
    logits, target = scores_and_labels(logits, target, from_logits=from_logits)
    classes = logits.shape[1]
    # The state of the generator seeds another one, so that no draw of other metrics depends on the classwise ones.
    per_class = ClassReplicates(classes, num_bins, len(logits), replicates, crc32(rng.get_state().numpy().tobytes()))
    keys = custom_keys(classes)
    scores = [Scores(logits, target, from_logits, part=part)] if keys else []
    custom = custom_values(scores[0], keys) if keys else {}
    columns = {key: custom.pop(key) for key in keys if custom[key].ndim == 1}
    samples = read_samples(logits, target, num_bins=num_bins, from_logits=from_logits, each=per_class.add, more=columns, part=part)
    values = _values(samples, per_class.gaps)
    (draws,) = bootstrap([samples], replicates, rng)
    floors = error_floors(samples, values, replicates, rng)
    classwise = per_class.calibrated()
    for key, scale in (("classwise_ece", classes), ("classwise_ece_sum", 1)):
        if (value := values[key]) is not None:
            floors[key] = noise_floor(classwise / scale, value)
    ends = {
        key: _interval(draw, values[key], samples.means[key].double() - samples.means[key].double().mean())
        for key, draw in draws.means.items()
    }
    ends |= {key: wilson_interval(values[key] or 0.0, len(samples)) for key in draws.means if METRICS[key].interval == "wilson"}
    if not samples.unanimous:
        inverted = {key: gap_interval(samples, key, draws, floors[key]) for key in PASS_KEYS if METRICS[key].bins}
        inverted["debiased_ece"] = inverted["ece_l2"]
        inverted["ks"] = ks_interval(samples, draws, floors["ks"])
        inverted["smooth_ece"] = smooth_interval(samples, draws, floors["smooth_ece"])
        if (total := per_class.interval(floors["classwise_ece_sum"])) is not None:
            inverted |= {"classwise_ece_sum": total, "classwise_ece": Inverted(*(each / classes for each in total))}
        influence = ranked_influence(samples.right, samples.last)
        ends |= {key: _interval(draw, values[key], influence[key]) for key, draw in draws.ranked.items()}
        for key, interval in inverted.items():
            # What was observed is within its interval; the two are summed in another order and may differ by a rounding error.
            value = interval.value if values[key] is None else values[key] or 0.0
            ends[key] = min(interval.low, value), max(min(interval.high, METRICS[key].most), value)
    for key, value_of_all in custom.items():
        values[key] = value_of_all.item()
        ends[key] = _interval(resampled_values(key, scores, replicates, rng)[0])
    found = {}
    for key, value in values.items():
        if value is not None:
            floor, p_value = floors.get(key), floors[key].p_value if key in floors else None
            verdict = None if p_value is None else CALIBRATED if p_value >= 0.05 else MISCALIBRATED
            found[key] = Estimate(value, *ends.get(key, (None, None)), floor, p_value, verdict)
    count = samples.width.start.diff()
    deciding = int(count[(samples.gaps(samples.width).abs() / count.clamp(min=1)).argmax()])
    if found["mce"].verdict == CALIBRATED and deciding < FEW:
        found["mce"] = replace(found["mce"], verdict=f"rests on a bin of {deciding} sample{'s' if deciding > 1 else ''}")
    return found


def _interval(values: Tensor, observed: float | None = None, influence: Tensor | None = None) -> tuple[float | None, float | None]:
    """Of the replicates, BCa where the `influence` of each sample is known, else percentiles.

    None where an NLL is infinite, as that of a probability of 0 is, or nothing varies.
    """
    values = values[~values.isnan()]
    if len(values) == 0 or not values.isfinite().all() or values.min() == values.max():
        return None, None
    return (
        percentiles(values)
        if observed is None or influence is None
        else bca_interval(values, observed, len(influence), skewness(influence))
    )


def all_metrics(
    logits: Logits, target: Target, *, num_bins: int = 15, from_logits: bool = True, classwise: bool = True, part: bool = False
) -> dict[str, float | None]:
    """Every metric, from one pass over the scores and one sort of the confidences; fractions, not percent.

    None where a metric is not defined: top5_accuracy with fewer than five classes, auroc_correct where all predictions are
    right or all wrong, debiased_ece where no bin holds two samples; and the classwise ones with `classwise=False`.
    """
    require_flag("classwise", classwise)
    gaps: Tensor | None = None

    def add_gaps(rows: Rows) -> None:
        nonlocal gaps
        if classwise:
            gaps = rows.class_gaps(num_bins).cpu() + (0 if gaps is None else gaps)

    return _values(read_samples(logits, target, num_bins=num_bins, from_logits=from_logits, each=add_gaps, part=part), gaps)


def _values(samples: Samples, per_class: Float[Tensor, "K H"] | None) -> dict[str, float | None]:
    """Every metric of samples that were read, and of the sums of `Rows.class_gaps`."""
    size, errors = len(samples), samples.bins().errors()
    ranked = ranked_values(torch.ones(1, 1).expand(1, size), samples)
    values = {
        **{key: column.double().mean() for key, column in samples.means.items()},
        **errors,
        "aece": samples.gaps(samples.mass).abs().sum(),
        "classwise_ece": None if per_class is None else classwise_from_gaps(per_class, size, "mean"),
        "classwise_ece_sum": None if per_class is None else classwise_from_gaps(per_class, size, "sum"),
        "smooth_ece": smooth_from_grid(residual_grid(samples.confidence, samples.right), size),
        "debiased_ece": None if errors["debiased_ece"].isnan() else errors["debiased_ece"],
        "ks": samples.before(samples.ks_cuts).diff(dim=0).abs().max() / size,
        "aurc": ranked["aurc"],
        "eaurc": ranked["eaurc"].clamp(min=0),  # no order beats the best one; rounding may seem to
        "auroc_correct": None if samples.unanimous else ranked["auroc_correct"],
    }
    return {key: None if (value := values.get(key)) is None else value.item() for key in dict.fromkeys((*PASS_KEYS, *samples.means))}
