"""What passes between a loop, a method and a mixer."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from rankmixup.errors import require_whole
from rankmixup.ops import Target, check_unit, class_indices


@dataclass(frozen=True)
class Batch:
    """One training batch."""

    x: Tensor
    """Inputs, `[B, ...]`."""
    y: Int[Tensor, " B"]
    """Class indices."""
    index: Int[Tensor, " B"] | None = None
    """Position of each sample in the training set, for methods that keep a history."""


@dataclass(frozen=True)
class Context:
    """What a method may know beside the batch."""

    rng: torch.Generator
    num_classes: int
    class_counts: Int[Tensor, " K"] | None = None
    state: nn.Module | None = None
    epoch: int = 0
    step: int = 0


class StepOutput(NamedTuple):
    """What one training step gives back.

    A tuple, because DDP and lightning-fabric look for tensors in tuples but refuse frozen dataclasses.
    """

    loss: Float[Tensor, ""]
    logits: Float[Tensor, "B K"] | None
    """Logits of the raw samples; None for a method that never forwards them."""
    terms: dict[str, Tensor]
    """Named parts of the loss, detached, for the log."""


class Mixed(NamedTuple):
    """Logits of raw and mixed samples, and everything that was drawn to make them."""

    raw: Float[Tensor, "B K"] | None
    logits: Float[Tensor, "M B K"]
    lam: Float[Tensor, "M B"]
    """Weight of the own sample in each mix (for CutMix, the area that is its own)."""
    partner: Int[Tensor, "M B"]
    """Position in the batch of the sample mixed in."""

    def same_class(self, target: Target) -> Bool[Tensor, "M B"]:
        """Where the partner has the sample's own class, itself included."""
        target = self._indices(target, 2**62)
        return target[self.partner] == target

    def relevance(self, target: Target) -> Float[Tensor, "M B"]:
        """Largest entry of the mixed label: max(lam, 1 - lam), or 1 where both samples have one class."""
        check_unit("lam", self.lam)
        return torch.where(self.same_class(target), 1.0, torch.maximum(self.lam, 1 - self.lam))

    def soft_labels(self, num_classes: int, target: Target) -> Float[Tensor, "M B K"]:
        """The label mixtures that timm's and torchvision's mixup return, one set for each mix."""
        check_unit("lam", self.lam)
        target = self._indices(target, require_whole("num_classes", num_classes, least=1, most=2**31))
        one_hot = nn.functional.one_hot(target, num_classes).to(self.lam.dtype)
        lam = self.lam.unsqueeze(-1)
        return lam * one_hot + (1 - lam) * one_hot[self.partner]

    def _indices(self, target: Target, classes: int) -> Int[Tensor, " B"]:
        return class_indices("target", target, self.partner.shape[-1], classes, self.partner)
