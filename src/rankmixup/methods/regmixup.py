"""RegMixup: mixup as a regulariser beside cross-entropy on raw samples (Pinto et al., 2022)."""

from dataclasses import dataclass
from typing import Literal

from torch import nn

from rankmixup.errors import require, require_choice, require_number
from rankmixup.methods.base import Method, register
from rankmixup.methods.cross_entropy import cross_entropy_loss
from rankmixup.methods.mixup import label_mixture_loss
from rankmixup.mixers import Mixer, Mixup
from rankmixup.ops import Logits, Loss, PerSample, Reduction, Target, reduce
from rankmixup.types import Batch, Context, StepOutput

Weighting = Literal["half", "sum"]


def regmixup_loss(
    logits: Logits,
    mixed_logits: Logits,
    target: Target,
    partner_target: Target,
    lam: PerSample,
    *,
    weighting: Weighting = "half",
    eta: float = 1.0,
    reduction: Reduction = "mean",
) -> Loss:
    """Cross-entropy on raw samples and on label mixtures: CE/2 + MCE/2 (`"half"`), or CE + `eta` MCE (`"sum"`).

    >>> import torch
    >>> raw, mixed = torch.zeros(1, 2), torch.tensor([[0.0, 1.0986123]])  # probabilities 1/2, 1/2 and 1/4, 3/4
    >>> labels = torch.tensor([0]), torch.tensor([1]), torch.tensor([0.5])
    >>> round(regmixup_loss(raw, mixed, *labels).item(), 4)  # ln 2 / 2 + (ln 4 + ln 4/3) / 4
    0.7651
    >>> round(regmixup_loss(raw, mixed, *labels, weighting="sum").item(), 4)  # twice that
    1.5301
    """
    require_choice("weighting", weighting, ("half", "sum"))
    _check_eta(weighting, eta)
    ce = cross_entropy_loss(logits, target, reduction="none")
    mixture = label_mixture_loss(mixed_logits, target, partner_target, lam, reduction="none")
    return reduce((ce + mixture) / 2 if weighting == "half" else ce + eta * mixture, reduction)


def _check_eta(weighting: str, eta: float) -> None:
    require_number("eta", eta, least=0)
    # An eta that is read by nobody would make two names for one run.
    require(weighting == "sum" or eta == 1, f"eta weighs the mixed term of weighting='sum' and must stay 1 for 'half', got {eta}")


@register("regmixup")
@dataclass(frozen=True)
class RegMixup(Method):
    """Cross-entropy on raw samples and, equally, on one mix of each against its mixed label.

    `mixer.alpha` 10 is the supplement's value for every data set: most mixes are then near half and half. One forward over
    raw samples and mixes together, so that they share BatchNorm statistics, as released.

    **Deviation:** `weighting="half"` halves both terms, as the release does; `"sum"` is CE + eta MCE, which is how RegMixup's
    own paper is remembered to have it and twice as large for eta 1. The release's own alpha is 20 for CIFAR-10 and 10 for CIFAR-100.
    """

    mixer: Mixer = Mixup(alpha=10.0, forward="joint")
    """How samples are mixed."""
    weighting: Weighting = "half"
    """Half of each term (the release), or cross-entropy plus `eta` times the mixed term."""
    eta: float = 1.0
    """Weight of the mixed term with `weighting="sum"`."""

    def check(self) -> None:
        _check_eta(self.weighting, self.eta)

    def __call__(self, model: nn.Module, batch: Batch, ctx: Context) -> StepOutput:
        mixed = self.mixer(model, batch.x, ctx.rng)
        assert mixed.raw is not None  # asked for by the call above
        labels = batch.y, batch.y[mixed.partner[0]], mixed.lam[0]
        loss = regmixup_loss(mixed.raw, mixed.logits[0], *labels, weighting=self.weighting, eta=self.eta)
        ce = cross_entropy_loss(mixed.raw.detach(), batch.y)
        mixture = label_mixture_loss(mixed.logits[0].detach(), *labels)
        return StepOutput(loss, mixed.raw, {"ce": ce, "mixture": mixture})

    @property
    def forwarded(self) -> int:
        return self.mixer.forwarded(1, raw=True)
