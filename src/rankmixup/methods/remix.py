"""Remix: mixup for long tails, whose labels lean to the rarer class (Chou et al., 2020)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from rankmixup.errors import InvalidInput, require, require_number
from rankmixup.methods.base import register
from rankmixup.methods.mixup import MixupTraining, label_mixture_loss
from rankmixup.mixers import Mixer, Mixup
from rankmixup.ops import PerSample, Target, check_counts, check_unit
from rankmixup.types import Batch, Context, StepOutput


def remix_label_weight(
    lam: PerSample, counts_own: Target, counts_partner: Target, *, kappa: float = 3.0, tau: float = 0.5
) -> Float[Tensor, " B"]:
    """Weight of the own label in each mix, from the weight `lam` of the own image and the class sizes n of both.

    0 where the own class is at least `kappa` times as large and lam < `tau`; 1 where the partner's is and 1 - lam < `tau`;
    lam elsewhere. Lambda must lie in 0..1 and class sizes must be positive, which is checked on the CPU alone.

    >>> lam = torch.tensor([0.25, 0.25, 0.75, 0.75])
    >>> remix_label_weight(lam, torch.tensor([30, 20, 10, 30]), torch.tensor([10, 10, 30, 10]))
    tensor([0.0000, 0.2500, 1.0000, 0.7500])
    """
    _check_rule(kappa, tau)
    lam = check_unit("lam", lam)
    counts_own, counts_partner = class_sizes("counts_own", counts_own, lam), class_sizes("counts_partner", counts_partner, lam)
    # Products rather than ratios of counts: exact at the threshold.
    larger = counts_own >= kappa * counts_partner
    smaller = counts_partner >= kappa * counts_own
    weight = torch.where(smaller & (1 - lam < tau), 1.0, lam)
    return torch.where(larger & (lam < tau), 0.0, weight)


def _check_rule(kappa: float, tau: float) -> None:
    require_number("kappa", kappa, least=1)
    require_number("tau", tau, least=0, most=1)


def class_sizes(name: str, counts: Target, like: Tensor) -> Int[Tensor, " B"]:
    """Class sizes as 64-bit integers; refuses other shapes than `like` has, and on the CPU what is not positive."""
    counts = check_counts(name, counts, like)
    require(counts.shape == like.shape, f"{name} must have shape {list(like.shape)}, got {list(counts.shape)}")
    require(counts.device.type != "cpu" or bool((counts > 0).all()), f"{name} must be positive, got 0")
    return counts


def counts_of(target: Int[Tensor, " B"], ctx: Context, method: str) -> Int[Tensor, " B"]:
    """Training images in the class of each sample; refuses a context that does not know, or that knows of none.

    Zero counts are looked for only on the CPU: on a GPU it would stall every step.
    """
    if ctx.class_counts is None:
        raise InvalidInput(f"{method} needs the training images of each class: class_counts must be given, got None")
    counts = ctx.class_counts.to(target.device)[target]
    if target.device.type == "cpu":
        for label in target[counts == 0].tolist():
            raise InvalidInput(f"class_counts must be positive for every class of the batch, got 0 for class {label}")
    return counts


@register("remix")
@dataclass(frozen=True)
class Remix(MixupTraining):
    """Mixup whose label goes to the rarer class alone where it is much rarer and its image weighs enough.

    Images are mixed with lambda, labels with `remix_label_weight`; cross-entropy against the mixed labels on the mixes alone.
    Needs `class_counts`. kappa 3, tau 0.5 and `mixer.alpha` 1 are the values of both re-implementations (no official code).

    **Deviation:** no deferred re-weighting of the loss, which one of them adds.
    """

    needs = ("class_counts",)

    mixer: Mixer = Mixup(alpha=1.0)
    """How samples are mixed."""
    kappa: float = 3.0
    """How many times larger the one class must be for its label to be given up."""
    tau: float = 0.5
    """Below which weight of its image the larger class's label is given up."""

    def check(self) -> None:
        _check_rule(self.kappa, self.tau)

    def __call__(self, model: nn.Module, batch: Batch, ctx: Context) -> StepOutput:
        counts = counts_of(batch.y, ctx, "remix")
        mixed = self.mixer(model, batch.x, ctx.rng, raw=False)
        lam, partner = mixed.lam[0], mixed.partner[0]
        weight = remix_label_weight(lam, counts, counts[partner], kappa=self.kappa, tau=self.tau)
        return StepOutput(label_mixture_loss(mixed.logits[0], batch.y, batch.y[partner], weight), None, {})
