"""What every mixer does: draw lambda and partner, run the forwards of the step, give everything back."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from rankmixup import random
from rankmixup.config import Configured
from rankmixup.errors import require
from rankmixup.registry import Registry
from rankmixup.types import Mixed

__all__ = ["InputMixer", "Mixer", "register"]

_registry: "Registry[type[Mixer]]" = Registry("mixer", "rankmixup.mixers")
register = _registry.register


@dataclass(frozen=True)
class Mixer(Configured):
    """Produces logits of mixed samples together with their lambda and partner."""

    registry = _registry

    alpha: float = 1.0
    """Both parameters of the Beta distribution that lambda is drawn from (alpha in the paper)."""
    lam_mode: Literal["batch", "sample"] = "batch"
    """One lambda for the whole batch in each mix, as in the paper, or one for each sample."""

    def check(self) -> None:
        require(self.alpha > 0, f"alpha must be positive, got {self.alpha}")

    def __call__(
        self,
        model: nn.Module,
        x: Tensor,
        rng: torch.Generator,
        *,
        num_mixes: int = 1,
        raw: bool = True,
        lam: Float[Tensor, "M B"] | None = None,
        partner: Int[Tensor, "M B"] | None = None,
    ) -> Mixed:
        """Forward `x` and `num_mixes` mixes of it; `raw=False` leaves the raw forward out.

        `lam` and `partner` replace the draws where given.
        """
        require(num_mixes >= 1, f"num_mixes must be at least 1, got {num_mixes}")
        require(x.is_floating_point(), f"inputs to mix must be floating point (mix after normalising), got {x.dtype}")
        size = len(x)
        if lam is None:
            width = size if self.lam_mode == "sample" else 1
            lam = random.beta(self.alpha, (num_mixes, width), rng).expand(num_mixes, size)
        if partner is None:
            partner = random.permutations(num_mixes, size, rng)
        for name, given in (("lam", lam), ("partner", partner)):
            require(given.shape == (num_mixes, size), f"{name} must have shape {[num_mixes, size]}, got {list(given.shape)}")
        return self.forward_mixed(model, x, rng, raw, lam.to(x.device), partner.to(x.device))

    @abstractmethod
    def forward_mixed(self, model: nn.Module, x: Tensor, rng: torch.Generator, raw: bool, lam: Tensor, partner: Tensor) -> Mixed:
        """Run the forwards with `lam` and `partner` settled."""

    def check_model(self, model: nn.Module) -> None:
        """Raise `InvalidInput` if this mixer cannot mix for `model`."""

    @abstractmethod
    def forwarded(self, num_mixes: int, raw: bool) -> int:
        """How many samples enter the network for each raw sample."""


def checked_logits(logits: Any, rows: int) -> Tensor:
    """What a model returned, if it is one tensor with a row for each sample that went in."""
    got = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
    require(isinstance(got, list) and got[:1] == [rows], f"a model must return one tensor of logits with {rows} rows, got {got}")
    return logits


@dataclass(frozen=True)
class InputMixer(Mixer):
    """A mixer that mixes inputs, so that the network sees nothing but ordinary batches."""

    forward: Literal["separate", "joint"] = "separate"
    """Raw samples and mixes in two forwards (each with its own BatchNorm statistics), or in one."""

    @abstractmethod
    def mix(self, x: Tensor, rng: torch.Generator, lam: Tensor, partner: Tensor) -> tuple[Tensor, Tensor]:
        """Mixed inputs `[M * B, ...]`, mix-major, and the lambda they really have, `[M, B]`."""

    def forward_mixed(self, model: nn.Module, x: Tensor, rng: torch.Generator, raw: bool, lam: Tensor, partner: Tensor) -> Mixed:
        mixed, lam = self.mix(x, rng, lam, partner)
        raw_logits: Tensor | None
        if raw and self.forward == "joint":
            both = checked_logits(model(torch.cat([x, mixed])), len(x) + len(mixed))
            raw_logits, mixed_logits = both.split([len(x), len(mixed)])
        else:
            raw_logits = checked_logits(model(x), len(x)) if raw else None
            mixed_logits = checked_logits(model(mixed), len(mixed))
        return Mixed(raw_logits, mixed_logits.unflatten(0, lam.shape), lam, partner)

    def forwarded(self, num_mixes: int, raw: bool) -> int:
        return num_mixes + raw
