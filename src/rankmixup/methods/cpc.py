"""CPC: cross-entropy plus logistic losses on pairs of classes, with the true class and without it."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from rankmixup.errors import require, require_number
from rankmixup.methods.base import LossMethod, register
from rankmixup.ops import Logits, Loss, Reduction, Target, check_batch, reduce

_PAIRS_AT_ONCE = 1 << 20  # 4 MB in float32: little memory, yet few enough rounds that starting them costs nothing
_FACTORS = 64  # each at least 1/2, so their product is far from float32's least number


def cpc_loss(logits: Logits, target: Target, *, discrimination: float = 0.1, exclusion: float = 1.0, reduction: Reduction = "mean") -> Loss:
    """Cross-entropy plus `discrimination` times BDC plus `exclusion` times BEC, calibration by pairwise constraints.

    Binary discrimination: BDC = 1/(K-1) sum_{j != y} softplus(z_j - z_y), the true class against every other.
    Binary exclusion: BEC = 1/((K-1)(K-2)) sum_{j != y} sum_{k != y} 1/2 softplus(z_k - z_j), every other class against every
    other, which is least when all are equal. Memory is that of the logits, not of the B * K^2 pairs.

    **Deviation:** the authors published no code. Formula and normalisers are those of a later re-implementation; it counts the
    pairs j = k, so the loss holds a constant of exclusion * ln 2 / (2 (K - 2)) that trains nothing.

    >>> logits, target = torch.zeros(1, 4), torch.tensor([0])
    >>> round(cpc_loss(logits, target, discrimination=0.0, exclusion=0.0).item(), 4)  # ln 4
    1.3863
    >>> round(cpc_loss(logits, target).item(), 4)  # ln 4 + 0.1 * ln 2 + 9/6 * ln 2 / 2
    1.9755
    """
    require_number("discrimination", discrimination, least=0)
    require_number("exclusion", exclusion, least=0)
    logits, target = check_batch(logits, target)
    classes = logits.shape[1]
    _check_classes(classes)
    column = torch.arange(classes - 1, device=logits.device)
    own = target.unsqueeze(1)
    others = logits.gather(1, column + (column >= own))  # [B, K - 1]
    bdc = F.softplus(others - logits.gather(1, own)).mean(dim=1)
    bec = _PairwiseSoftplus.apply(others) / (2 * (classes - 1) * (classes - 2))
    return reduce(F.cross_entropy(logits, target, reduction="none") + discrimination * bdc + exclusion * bec, reduction)


class _PairwiseSoftplus(torch.autograd.Function):
    """Sum over all j and k of softplus(z_j - z_k) for each row, without ever holding all B * K^2 differences d.

    The sum does not separate, but its gradient, sum_k (2 sigmoid(d_jk) - 1), is no larger than z. So both are gathered over a
    few j at a time, and autograd is left nothing to keep. Since d_jk and d_kj both occur, softplus(d) may be replaced by
    `|d| / 2 - log sigmoid(|d|)`: one sigmoid serves sum and gradient, and logarithms are taken of products, not of each factor.
    """

    @staticmethod
    def forward(ctx: Any, z: Float[Tensor, "B K"]) -> Float[Tensor, " B"]:
        batch, classes = z.shape
        # Half the sum of all |d|: in ascending order, a logit is the larger of two as often as there are logits below it.
        total = (z.sort(dim=1).values * torch.arange(1 - classes, classes, 2, device=z.device)).sum(dim=1)
        gradient = torch.empty_like(z)
        step = min(max(1, _PAIRS_AT_ONCE // z.numel()), _FACTORS)
        # One piece of memory for all rounds: asking for it anew costs more than the arithmetic.
        memory = z.new_empty(min(step, classes), batch, classes)
        for start in range(0, classes, step):
            few = z[:, start : start + step].T
            d = torch.sub(few.unsqueeze(2), z, out=memory[: len(few)])  # [step, B, K]
            excess = d.sigmoid_().sub_(0.5)
            gradient[:, start : start + step] = 2 * excess.sum(dim=2).T
            total -= excess.abs_().add_(0.5).prod(dim=0).log().sum(dim=1)
        ctx.save_for_backward(gradient)
        return total

    @staticmethod
    def backward(ctx: Any, grad_output: Float[Tensor, " B"]) -> Float[Tensor, "B K"]:
        # once_differentiable looks only at grad_output, which is a constant here, and would let the saved gradient pass as one.
        require(not torch.is_grad_enabled(), "cpc_loss has a first derivative only, so create_graph must be False, got True")
        (gradient,) = ctx.saved_tensors
        return grad_output.unsqueeze(1) * gradient


def _check_classes(classes: int) -> None:
    require(classes >= 3, f"logits must have at least 3 classes, so that two are left beside the true one, got {classes}")


@register("cpc")
@dataclass(frozen=True)
class CPC(LossMethod):
    """Cross-entropy plus logistic losses on all pairs of classes (Cheng and Vasconcelos, 2022).

    Defaults are the supplement's. Needs three classes or more.
    """

    function = staticmethod(cpc_loss)
    nonnegative = ("discrimination", "exclusion")
    discrimination: float = 0.1
    """Weight of the true class against each other class (lambda of BDC)."""
    exclusion: float = 1.0
    """Weight of the other classes against one another (lambda of BEC)."""

    def check_task(self, num_classes: int) -> None:
        _check_classes(num_classes)
