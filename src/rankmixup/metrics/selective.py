"""Selective prediction: does confidence put right predictions before wrong ones? Ties share, so that order never matters.

Predictions are ranked by the log-odds of their confidence, which do not round to 1 as a confidence does.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup.errors import require
from rankmixup.metrics.inputs import Logits, Scalar, Target, ranked_label
from rankmixup.metrics.ties import TieGroups, odds_groups


def aurc(logits: Logits, target: Target, *, from_logits: bool = True) -> Scalar:
    """Area under the risk-coverage curve (Geifman et al., 2019): the mean, over k = 1..N, of the error rate of the k most confident.

    Where only some of several equally confident samples are among the k, they bring their mean error rate.

    >>> probs = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
    >>> round(aurc(probs, torch.tensor([0, 1, 0, 0]), from_logits=False).item(), 4)  # (0 + 1/2 + 1/3 + 1/4) / 4
    0.2708
    """
    return aurc_from_groups(odds_groups(*ranked_label(logits, target, from_logits=from_logits)))


def excess_aurc(logits: Logits, target: Target, *, from_logits: bool = True) -> Scalar:
    """AURC minus that of the best order, every right prediction before every wrong one: 0 for a perfect ranking.

    **Deviation:** the best order's area is counted exactly; r + (1 - r) ln(1 - r), which is often used, is its limit for many samples.

    >>> probs = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
    >>> round(excess_aurc(probs, torch.tensor([0, 1, 0, 0]), from_logits=False).item(), 4)  # (1/2 + 1/3 + 1/4 - 1/4) / 4
    0.2083
    """
    return excess_from_groups(odds_groups(*ranked_label(logits, target, from_logits=from_logits)))


def correctness_auroc(logits: Logits, target: Target, *, from_logits: bool = True) -> Scalar:
    """Chance that a right prediction is more confident than a wrong one; a tie counts half.

    >>> probs = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
    >>> round(correctness_auroc(probs, torch.tensor([0, 1, 0, 0]), from_logits=False).item(), 4)  # 1 of 3
    0.3333
    """
    return correctness_from_groups(odds_groups(*ranked_label(logits, target, from_logits=from_logits)))


def risk_coverage(groups: TieGroups) -> Float[Tensor, " N"]:
    """Error rate of the k most confident, for k = 1..N."""
    size, wrong = groups.size.flip(0), (groups.size - groups.positive).flip(0)
    before, wrong_before = size.cumsum(0) - size, wrong.cumsum(0) - wrong
    k = torch.arange(1, groups.total + 1, dtype=torch.float64, device=size.device)
    inside = k - before.repeat_interleave(size)
    return (wrong_before.repeat_interleave(size) + inside * (wrong / size).repeat_interleave(size)) / k


def aurc_from_groups(groups: TieGroups) -> Scalar:
    """AURC of confidences and correctness."""
    return risk_coverage(groups).mean()


def excess_from_groups(groups: TieGroups) -> Scalar:
    """E-AURC of confidences and correctness."""
    k = torch.arange(1, groups.total + 1, dtype=torch.float64, device=groups.size.device)
    best = ((k - groups.positive.sum()).clamp(min=0) / k).mean()
    # No order beats the best one; rounding may seem to.
    return (aurc_from_groups(groups) - best).clamp(min=0)


def correctness_from_groups(groups: TieGroups) -> Scalar:
    """AUROC of correctness of confidences and correctness."""
    right = int(groups.positive.sum())
    both = 0 < right < groups.total
    require(both, f"predictions must be right and wrong at least once for an AUROC, got {right} right of {groups.total}")
    return groups.auroc()
