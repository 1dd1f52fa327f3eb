"""All metrics of one set of scores, as the plain numbers that logs, results and reports hold."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankmixup.errors import require_flag
from rankmixup.evaluation.registry import PASS_KEYS
from rankmixup.evaluation.replicates import Samples, ranked_values, read_samples
from rankmixup.metrics.classwise import classwise_from_gaps
from rankmixup.metrics.smooth import residual_grid, smooth_from_grid

__all__ = ["all_metrics", "values_of"]


def all_metrics(
    logits: Float[Tensor, "N K"],
    target: Int[Tensor, " N"],
    *,
    num_bins: int = 15,
    from_logits: bool = True,
    classwise: bool = True,
) -> dict[str, float | None]:
    """Every metric, from one pass over the scores and one sort of the confidences; fractions, not percent.

    None where a metric is not defined: top5_accuracy with fewer than five classes, auroc_correct where all predictions are
    right or all wrong, debiased_ece where no bin holds two samples; and the classwise ones with `classwise=False`.
    """
    require_flag("classwise", classwise)
    gaps: list[Tensor] | None = [] if classwise else None
    return values_of(read_samples(logits, target, num_bins=num_bins, from_logits=from_logits, class_gaps=gaps), gaps)


def values_of(samples: Samples, class_gaps: list[Tensor] | None) -> dict[str, float | None]:
    """Every metric of samples that were read; `class_gaps` as `read_samples` leaves them."""
    size, bins, per_class = len(samples), samples.bins(), class_gaps[0] if class_gaps else None
    ranked = ranked_values(torch.ones(1, 1).expand(1, size), samples)
    debiased = bins.debiased()
    values = {
        **{key: column.double().mean() for key, column in samples.means.items()},
        "ece": bins.ece(),
        "ece_l2": bins.ece("l2"),
        "mce": bins.mce(),
        "aece": samples.gaps(samples.mass).abs().sum(),
        "classwise_ece": None if per_class is None else classwise_from_gaps(per_class, size, "mean"),
        "classwise_ece_sum": None if per_class is None else classwise_from_gaps(per_class, size, "sum"),
        "oe": bins.oe(),
        "ue": bins.ue(),
        "smooth_ece": smooth_from_grid(residual_grid(samples.confidence, samples.right), size),
        "debiased_ece": None if debiased.isnan() else debiased,
        "ks": samples.before(samples.ks_cuts).diff(dim=0).abs().max() / size,
        "aurc": ranked["aurc"],
        "eaurc": ranked["eaurc"].clamp(min=0),  # no order beats the best one; rounding may seem to
        "auroc_correct": None if samples.unanimous else ranked["auroc_correct"],
    }
    return {key: None if (value := values.get(key)) is None else value.item() for key in dict.fromkeys((*PASS_KEYS, *samples.means))}
