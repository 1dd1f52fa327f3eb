"""Logit mixup: the logits of two samples are mixed, behind a single forward of the raw ones."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rankmixup.mixers.base import Mixer, register
from rankmixup.mixers.mixup import mixup
from rankmixup.ops import check_logits
from rankmixup.types import Inputs, Mixed, call_model


@register("logit")
@dataclass(frozen=True)
class LogitMixup(Mixer):
    """Convex combinations of the logits of two samples: one forward, any network, inputs of any type.

    Ours, not the paper's. Where a network ends in average pooling and a linear layer, it is manifold mixup behind the last stage, exactly.
    """

    mixes_inputs = False

    def forward_mixed(self, model: nn.Module, x: Inputs, rng: torch.Generator, raw: bool, lam: Tensor, partner: Tensor) -> Mixed:
        logits = check_logits(call_model(model, x), rows=lam.shape[1])
        return Mixed(logits if raw else None, mixup(logits, lam, partner), lam, partner)

    def forwarded(self, num_mixes: int, raw: bool) -> int:
        return 1
