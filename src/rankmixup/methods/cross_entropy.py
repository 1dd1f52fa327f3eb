"""Cross-entropy: the baseline that every method is held against."""

from dataclasses import dataclass

from torch.nn import functional as F

from rankmixup.methods.base import LossMethod, register
from rankmixup.ops import Logits, Loss, Reduction, Target, check_batch, reduce


def cross_entropy_loss(logits: Logits, target: Target, *, reduction: Reduction = "mean") -> Loss:
    """Softmax cross-entropy, Eq. (4).

    >>> import torch
    >>> round(cross_entropy_loss(torch.zeros(1, 4), torch.tensor([2])).item(), 4)  # ln 4
    1.3863
    """
    logits, target = check_batch(logits, target)
    return reduce(F.cross_entropy(logits, target, reduction="none"), reduction)


@register("ce", "cross-entropy")
@dataclass(frozen=True)
class CrossEntropy(LossMethod):
    """Softmax cross-entropy on raw samples, Eq. (4)."""

    function = staticmethod(cross_entropy_loss)
