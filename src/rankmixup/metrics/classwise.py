"""Calibration error of every class's probability, not only of the predicted one's."""

from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup.errors import require_choice
from rankmixup.metrics.inputs import Logits, Scalar, Target, checked_rows
from rankmixup.metrics.rows import check_num_bins

Aggregate = Literal["mean", "sum"]
AGGREGATES: tuple[Aggregate, ...] = get_args(Aggregate)


def classwise_calibration_error(
    logits: Logits, target: Target, *, num_bins: int = 15, from_logits: bool = True, aggregate: Aggregate = "mean"
) -> Scalar:
    """ECE of each class's probability as a prediction of that class, averaged over the classes or summed.

    A bin's weight times its gap is `|sum of probability - label| / N`, so that one sum for each class and bin is enough.

    **Deviation:** all K classes count, the release takes their number from the largest label; a probability of exactly 0
    belongs to the first bin, the release leaves it out and with it a label that was called impossible.

    >>> probs = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.4, 0.6]])
    >>> round(classwise_calibration_error(probs, torch.tensor([0, 0, 0, 1]), from_logits=False).item(), 4)  # (0.1 + 0.1) / 2 for each class
    0.1
    >>> round(classwise_calibration_error(probs, torch.tensor([0, 0, 0, 1]), aggregate="sum", from_logits=False).item(), 4)
    0.2
    """
    check_num_bins(num_bins)
    require_choice("aggregate", aggregate, AGGREGATES)
    return classwise_from_gaps(class_gaps(logits, target, num_bins, from_logits=from_logits), len(target), aggregate)


def class_gaps(logits: Logits, target: Target, num_bins: int, *, from_logits: bool) -> Float[Tensor, "K H"]:
    """Sum of probability minus label for each class and bin; adds up over batches and processes."""
    gaps = (rows.class_gaps(num_bins) for rows in checked_rows(logits, target, from_logits=from_logits))
    return sum(gaps, start=torch.zeros(()))  # one by one: each is as large as all classes times all bins


def classwise_from_gaps(gaps: Float[Tensor, "K H"], samples: int, aggregate: Aggregate) -> Scalar:
    """Classwise ECE from the sums of `class_gaps`."""
    per_class = gaps.abs().sum(dim=1) / samples
    return per_class.mean() if aggregate == "mean" else per_class.sum()
