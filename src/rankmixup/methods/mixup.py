"""Mixup training: cross-entropy against mixtures of labels."""

from dataclasses import dataclass

from torch import nn
from torch.nn import functional as F

from rankmixup.errors import require
from rankmixup.methods.base import Method, register
from rankmixup.mixers import Mixer, Mixup
from rankmixup.ops import Logits, Loss, PerSample, Reduction, Target, check_batch, check_unit, class_indices, reduce
from rankmixup.types import Batch, Context, StepOutput


def label_mixture_loss(
    mixed_logits: Logits, target: Target, partner_target: Target, lam: PerSample, *, reduction: Reduction = "mean"
) -> Loss:
    """Cross-entropy against the mixture `lam * target + (1 - lam) * partner_target`, Eqs. (4) and (6).

    Args:
        mixed_logits: Of the mixed samples, `[B, K]`.
        target: Class of each sample, `[B]`.
        partner_target: Class of the sample that was mixed into each, `[B]`.
        lam: Weight of the own label in 0..1, `[B]`. Values are checked on the CPU only.
        reduction: "mean", "sum", or "none" for one loss per sample.

    >>> import torch
    >>> logits = torch.tensor([[0.0, 1.0986123]])  # probabilities 1/4 and 3/4
    >>> loss = label_mixture_loss(logits, torch.tensor([0]), torch.tensor([1]), torch.tensor([0.5]))
    >>> round(loss.item(), 4)  # (ln 4 + ln 4/3) / 2
    0.837
    """
    mixed_logits, target = check_batch(mixed_logits, target, ("mixed_logits", "target"))
    partner_target = class_indices("partner_target", partner_target, len(target), mixed_logits.shape[1], mixed_logits)
    lam = check_unit("lam", lam, mixed_logits)
    require(lam.shape == target.shape, f"lam must have the shape of target, got {list(lam.shape)} and {list(target.shape)}")
    own, other = (F.cross_entropy(mixed_logits, labels, reduction="none") for labels in (target, partner_target))
    return reduce(lam * own + (1 - lam) * other, reduction)


@register("mixup")
@dataclass(frozen=True)
class MixupTraining(Method):
    """Cross-entropy against mixed labels on mixed samples alone.

    The raw samples are never forwarded. `mixer.alpha` 0.2 is the supplement's value, from Thulasidasan et al. (2019).
    """

    mixer: Mixer = Mixup(alpha=0.2)
    """How samples are mixed."""

    def __call__(self, model: nn.Module, batch: Batch, ctx: Context) -> StepOutput:
        mixed = self.mixer(model, batch.x, ctx.rng, raw=False)
        lam, partner = mixed.lam[0], mixed.partner[0]
        return StepOutput(label_mixture_loss(mixed.logits[0], batch.y, batch.y[partner], lam), None, {})

    @property
    def forwarded(self) -> int:
        return self.mixer.forwarded(1, raw=False)
