"""Mixup training: cross-entropy against mixtures of labels."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor, nn

from rankmixup.errors import require
from rankmixup.methods.base import Method, register
from rankmixup.methods.cross_entropy import cross_entropy_loss
from rankmixup.mixers import Mixer, Mixup
from rankmixup.ops import Reduction, check_same_device, check_unit, reduce
from rankmixup.types import Batch, Context, StepOutput

__all__ = ["MixupTraining", "label_mixture_loss"]


def label_mixture_loss(
    mixed_logits: Float[Tensor, "B K"],
    target: Int[Tensor, " B"],
    partner_target: Int[Tensor, " B"],
    lam: Float[Tensor, " B"],
    *,
    reduction: Reduction = "mean",
) -> Float[Tensor, "..."]:
    """Cross-entropy against the mixture `lam * target + (1 - lam) * partner_target`, Eqs. (4) and (6).

    Lambda must lie in 0..1, which is checked on the CPU alone: on a GPU it would make every step wait.

    >>> import torch
    >>> logits = torch.tensor([[0.0, 1.0986123]])  # probabilities 1/4 and 3/4
    >>> loss = label_mixture_loss(logits, torch.tensor([0]), torch.tensor([1]), torch.tensor([0.5]))
    >>> round(loss.item(), 4)  # (ln 4 + ln 4/3) / 2
    0.837
    """
    own = cross_entropy_loss(mixed_logits, target, reduction="none")
    check_unit("lam", lam)
    check_same_device("lam", lam, own)
    require(lam.shape == target.shape, f"lam must have the shape of target, got {list(lam.shape)} and {list(target.shape)}")
    other = cross_entropy_loss(mixed_logits, partner_target, reduction="none")
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
