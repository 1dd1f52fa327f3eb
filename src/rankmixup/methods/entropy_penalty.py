"""Entropy penalty: cross-entropy that pays for predictions without entropy."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch.nn import functional as F

from rankmixup.errors import require_flag, require_number
from rankmixup.methods.base import LossMethod, register
from rankmixup.methods.dials import Auto, Dial
from rankmixup.ops import Logits, Loss, Reduction, Target, check_batch, reduce


def entropy_penalty_loss(
    logits: Logits, target: Target, *, weight: float = 0.1, per_class: bool = False, reduction: Reduction = "mean"
) -> Loss:
    """Cross-entropy less the entropy of the prediction: -log p_y - weight * H(p), with H(p) = -sum_k p_k log p_k.

    **Deviation:** `per_class=True` is what the release computes: H averaged over the classes, H / K, so that its weight of 0.1
    is in effect 0.01 for ten classes and 0.0005 for two hundred. The default is the definition.

    >>> import torch
    >>> logits, target = torch.zeros(1, 4), torch.tensor([2])
    >>> round(entropy_penalty_loss(logits, target).item(), 4)  # ln 4 - 0.1 * ln 4
    1.2477
    >>> round(entropy_penalty_loss(logits, target, per_class=True).item(), 4)  # ln 4 - 0.1 * (ln 4) / 4
    1.3516
    """
    require_number("weight", weight, least=0)
    require_flag("per_class", per_class)
    logits, target = check_batch(logits, target)
    log_p = F.log_softmax(logits, dim=1)
    # exp(log p) * log p, not p * log(p): where p underflows the product is 0 and so is its gradient.
    terms = log_p.exp() * log_p
    entropy = -(terms.mean(dim=1) if per_class else terms.sum(dim=1))
    return reduce(F.nll_loss(log_p, target, reduction="none") - weight * entropy, reduction)


@register("ecp")
@dataclass(frozen=True)
class EntropyPenalty(LossMethod):
    """Cross-entropy less a share of the prediction's entropy, the confidence penalty ECP (Pereyra et al., 2017)."""

    function = staticmethod(entropy_penalty_loss)
    nonnegative = ("weight",)
    weight: float | Auto = 0.1
    """Weight of the entropy (beta in Pereyra et al.), the supplement's and the release's; auto: set by feedback."""
    per_class: bool = False
    """Divide the entropy by the number of classes, as released."""

    @property
    def dials(self) -> Mapping[str, Dial]:
        return {"weight": Dial(0.0, 2.0, start=0.0)}
