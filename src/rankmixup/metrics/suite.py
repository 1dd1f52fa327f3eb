"""All metrics of one set of scores, as the plain numbers that logs, results and reports hold."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankmixup.metrics.calibration import adaptive_from_groups, bin_top_label, check_num_bins, ks_from_groups
from rankmixup.metrics.classwise import classwise_from_gaps
from rankmixup.metrics.inputs import checked_rows
from rankmixup.metrics.selective import aurc_from_groups, correctness_from_groups, excess_from_groups
from rankmixup.metrics.smooth import residual_grid, smooth_from_grid
from rankmixup.metrics.ties import confidence_groups, odds_groups

__all__ = ["METRIC_KEYS", "all_metrics"]

METRIC_KEYS = (
    *("accuracy", "top5_accuracy", "nll", "brier", "ece", "ece_l2", "mce", "aece", "classwise_ece", "classwise_ece_sum", "oe", "ue"),
    *("smooth_ece", "debiased_ece", "ks", "aurc", "eaurc", "auroc_correct"),
)
"""Every key that `all_metrics` gives; of the accuracies and auroc_correct more is better, of all others less."""


def all_metrics(
    scores: Float[Tensor, "N K"],
    target: Int[Tensor, " N"],
    *,
    num_bins: int = 15,
    from_logits: bool = False,
    classwise: bool = True,
) -> dict[str, float | None]:
    """Every metric, from one pass over the scores and one sort of the confidences; fractions, not percent.

    None where a metric is not defined: top5_accuracy with fewer than five classes, auroc_correct where all predictions are
    right or all wrong, debiased_ece where no bin holds two samples; and the classwise ones with `classwise=False`.
    """
    check_num_bins(num_bins)
    top5 = scores.ndim == 2 and scores.shape[1] >= 5

    per_class, parts = None, []
    for rows in checked_rows(scores, target, from_logits=from_logits):
        right = rows.right_within(1)
        parts.append((rows.confidence, right, rows.log_odds, rows.right_within(5) if top5 else right, rows.nll, rows.brier))
        if classwise:
            gaps = rows.class_gaps(num_bins)
            per_class = gaps if per_class is None else per_class + gaps
    confidence, right, log_odds, within5, nll, brier = (torch.cat(column) for column in zip(*parts, strict=True))
    correct = right.double()
    bins, groups, ranked = bin_top_label(confidence, correct, num_bins), confidence_groups(confidence, correct), odds_groups(log_odds, correct)
    samples, debiased = len(confidence), bins.debiased()
    values = {
        "accuracy": right.double().mean(),
        "top5_accuracy": within5.double().mean() if top5 else None,
        "nll": nll.mean(),
        "brier": brier.mean(),
        "ece": bins.ece(),
        "ece_l2": bins.ece("l2"),
        "mce": bins.mce(),
        "aece": adaptive_from_groups(groups, num_bins),
        "classwise_ece": None if per_class is None else classwise_from_gaps(per_class, samples, "mean"),
        "classwise_ece_sum": None if per_class is None else classwise_from_gaps(per_class, samples, "sum"),
        "oe": bins.oe(),
        "ue": bins.ue(),
        "smooth_ece": smooth_from_grid(residual_grid(confidence, correct), samples),
        "debiased_ece": None if debiased.isnan() else debiased,
        "ks": ks_from_groups(groups),
        "aurc": aurc_from_groups(ranked),
        "eaurc": excess_from_groups(ranked),
        "auroc_correct": correctness_from_groups(ranked) if 0 < int(right.sum()) < samples else None,
    }
    return {key: None if value is None else value.item() for key, value in values.items()}
