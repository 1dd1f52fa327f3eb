"""Focal loss: cross-entropy that cares less about what is already predicted well, with a fixed or a sample's own exponent."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from rankmixup.errors import require_number
from rankmixup.methods.base import LossMethod, register
from rankmixup.methods.dials import Auto, Dial
from rankmixup.ops import Logits, Loss, Reduction, Target, check_batch, reduce


def focal_loss(logits: Logits, target: Target, *, gamma: float = 3.0, reduction: Reduction = "mean") -> Loss:
    """Focal loss over the softmax: -(1 - p_y)^gamma * log p_y. The gradient flows through both factors.

    **Deviation:** the authors of its use for calibration summed over the batch; the release takes the mean, as here.

    >>> logits = torch.tensor([[0.0, 1.0986123]])  # probabilities 1/4 and 3/4
    >>> round(focal_loss(logits, torch.tensor([1]), gamma=2.0).item(), 4)  # (1/4)^2 * ln 4/3
    0.018
    """
    require_number("gamma", gamma, least=0)
    logits, target = check_batch(logits, target)
    return reduce(_modulated(-F.cross_entropy(logits, target, reduction="none"), gamma), reduction)


def flsd_loss(logits: Logits, target: Target, *, reduction: Reduction = "mean") -> Loss:
    """Focal loss with sample-dependent gamma, FLSD-53: gamma is 5 where p_y < 0.2 and 3 elsewhere.

    The choice of gamma is a constant to the gradient, so the loss jumps where p_y crosses 0.2.

    >>> logits = torch.tensor([[0.0, 2.1972246]])  # probabilities 1/10 and 9/10
    >>> round(flsd_loss(logits, torch.tensor([0])).item(), 4)  # (9/10)^5 * ln 10
    1.3597
    >>> round(flsd_loss(logits, torch.tensor([1])).item(), 6)  # (1/10)^3 * ln 10/9
    0.000105
    """
    logits, target = check_batch(logits, target)
    log_p = -F.cross_entropy(logits, target, reduction="none")
    gamma = torch.where(log_p.detach().exp() < 0.2, 5.0, 3.0)
    return reduce(_modulated(log_p, gamma), reduction)


def _modulated(log_p: Float[Tensor, " B"], gamma: float | Float[Tensor, " B"]) -> Float[Tensor, " B"]:
    # 1 - p_y without cancellation. It is kept from 0, where a power below 1 has an infinite slope and 0 * inf is not a number.
    miss = (-torch.expm1(log_p)).clamp(min=torch.finfo(log_p.dtype).tiny)
    return -(miss**gamma) * log_p


@register("focal", "fl", "focal-loss")
@dataclass(frozen=True)
class Focal(LossMethod):
    """Focal loss with one gamma for all samples (Lin et al., 2017; for calibration, Mukhoti et al., 2020)."""

    function = staticmethod(focal_loss)
    nonnegative = ("gamma",)
    gamma: float | Auto = 3.0
    """Exponent gamma of 1 - p_y, 3 as in the supplement and the release: how fast a sample's loss fades; 0 is cross-entropy. Or auto."""

    @property
    def dials(self) -> Mapping[str, Dial]:
        return {"gamma": Dial(0.0, 10.0, start=0.0, proportional=1.0, integral=0.4)}


@register("flsd")
@dataclass(frozen=True)
class FLSD(LossMethod):
    """Focal loss with gamma 5 where the true class has less than 0.2 and 3 elsewhere (FLSD-53, Mukhoti et al., 2020).

    The schedule is the supplement's. The release has a third interval, from 0.5 up, whose gamma is configured, also to 3.
    """

    function = staticmethod(flsd_loss)
