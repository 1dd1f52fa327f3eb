"""What a metric accepts: scores `[N, K]` that are said to be probabilities or logits, never guessed, and labels `[N]`."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankmixup.errors import require

__all__ = ["check_scores", "probabilities", "top_label"]

_SUM_TOLERANCE = 1e-3
"""How far a row of probabilities may be from 1: half-precision softmaxes over many classes reach about this."""


def check_scores(scores: Tensor, target: Tensor, *, from_logits: bool) -> None:
    """Refuse, in one sentence, scores and labels from which no right number can be computed."""
    kind = "logits" if from_logits else "probs"
    require(scores.ndim == 2, f"{kind} must have shape [N, K], got {list(scores.shape)}")
    require(scores.is_floating_point(), f"{kind} must be floating point, got {scores.dtype}")
    samples, classes = scores.shape
    require(samples > 0 and classes > 0, f"{kind} must hold at least one sample and one class, got shape {list(scores.shape)}")
    require(target.ndim == 1, f"labels must have shape [N], got {list(target.shape)}")
    require(len(target) == samples, f"{kind} and labels must have the same length, got {samples} and {len(target)}")
    integer = not (target.is_floating_point() or target.dtype == torch.bool)
    require(integer, f"labels must be class indices, got {target.dtype}")
    low, high = (int(bound) for bound in target.aminmax())
    wrong = low if low < 0 else high
    require(0 <= wrong < classes, f"labels must lie in 0..{classes - 1}, got {wrong}")
    total = scores.sum(dim=1, dtype=torch.promote_types(scores.dtype, torch.float32))
    # A sum is finite only if every term is: the terms themselves are looked at only where it is not, since it may overflow.
    if not bool(total.isfinite().all()):
        finite = scores.isfinite().all(dim=1)
        require(bool(finite.all()), f"{kind} must be finite, row {int(finite.long().argmin())} is not")
    smallest = scores.min().item()
    # Nothing negative and a sum of 1 leave no entry above 1.
    sums_to_one = smallest >= 0 and bool(((total - 1).abs() <= _SUM_TOLERANCE).all())
    if from_logits:
        # Rows of a single 1 among zeros are as likely logits written by hand.
        one_hot = sums_to_one and bool(((scores == 0) | (scores == 1)).all())
        require(not sums_to_one or one_hot, "logits must not be probabilities, but every row lies in [0, 1] and sums to 1")
    else:
        require(smallest >= 0, f"probs must not be negative (logits, perhaps?), got {smallest:.6g}")
        row = int((total - 1).abs().argmax())
        require(sums_to_one, f"probs must sum to 1 in every row (logits, perhaps?), row {row} sums to {total[row]:.6g}")


def probabilities(scores: Float[Tensor, "N K"], target: Int[Tensor, " N"], *, from_logits: bool) -> Float[Tensor, "N K"]:
    """Checked probabilities, in float32 or better."""
    check_scores(scores, target, from_logits=from_logits)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return scores.softmax(dim=1) if from_logits else scores


def top_label(
    scores: Float[Tensor, "N K"], target: Int[Tensor, " N"], *, from_logits: bool
) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
    """Confidence of each prediction, Eq. (3), and whether it is right (1.0 or 0.0), of checked scores."""
    top, prediction = probabilities(scores, target, from_logits=from_logits).max(dim=1)
    return top, (prediction == target.to(prediction)).to(top.dtype)
