"""What every mixer does: draw lambda and partner, run the forwards of the step, give everything back."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from rankmixup import random
from rankmixup.config import Configured
from rankmixup.errors import require, require_flag, require_whole, shown
from rankmixup.ops import PlainArray, check_floats, check_indices, check_logits, check_tensor, check_unit
from rankmixup.registry import Registry
from rankmixup.types import Mixed

_registry: "Registry[type[Mixer]]" = Registry("mixer", "rankmixup.mixers")
register = _registry.register


@dataclass(frozen=True)
class Mixer(Configured):
    """Produces logits of mixed samples together with their lambda and partner."""

    registry = _registry
    mixes_inputs: ClassVar[bool] = True
    """Whether inputs must be numbers that can be mixed."""

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
        lam: Float[Tensor, "M B"] | PlainArray | None = None,
        partner: Int[Tensor, "M B"] | PlainArray | None = None,
    ) -> Mixed:
        """Forward `x` and mixes of it.

        Args:
            model: The network.
            x: Inputs `[B, ...]`, floating point.
            rng: Where lambda and partners are drawn from.
            num_mixes: Mixes of each sample, M.
            raw: Whether to forward the raw samples too.
            lam: Weight of each sample in its mixes, 0..1, `[M, B]`, instead of a draw.
            partner: Position in the batch of the sample mixed in, `[M, B]`, instead of a draw.

        Returns:
            Logits of raw and mixed samples, with the lambda and partner of every mix.
        """
        num_mixes = require_whole("num_mixes", num_mixes, least=1, most=1_000_000)
        require_flag("raw", raw)
        require(isinstance(model, nn.Module), f"model must be a torch.nn.Module, got {shown(model)}; wrap a function in a module")
        require(isinstance(rng, torch.Generator), f"rng must be a torch.Generator, got {shown(rng)}")
        require(isinstance(x, Tensor), f"x must be a tensor, got {shown(x)}")
        if self.mixes_inputs:
            require(x.dtype.is_floating_point, f"x must be floating point (mix after normalising), got {x.dtype}")
            check_floats("x", x)
        require(check_tensor("x", x).ndim > 0, "x must be a batch of samples, got a single number")
        size = len(x)
        if lam is None:
            width = size if self.lam_mode == "sample" else 1
            lam = random.beta(self.alpha, (num_mixes, width), rng).expand(num_mixes, size)
        if partner is None:
            partner = random.permutations(num_mixes, size, rng)
        lam, partner = check_unit("lam", lam), check_indices("partner", partner, size)
        for name, given in (("lam", lam), ("partner", partner)):
            require(given.shape == (num_mixes, size), f"{name} must have shape {[num_mixes, size]}, got {list(given.shape)}")
        return self.forward_mixed(model, x, rng, raw, lam.to(x.device), partner.to(x.device))

    @abstractmethod
    def forward_mixed(self, model: nn.Module, x: Tensor, rng: torch.Generator, raw: bool, lam: Tensor, partner: Tensor) -> Mixed:
        """Run the forwards with `lam` and `partner` settled."""

    def check_input(self, shape: tuple[int, ...]) -> None:
        """Raise `InvalidInput` if inputs of this shape, without the batch, cannot be mixed."""

    def check_model(self, model: nn.Module) -> None:
        """Raise `InvalidInput` if this mixer cannot mix for `model`."""

    @abstractmethod
    def forwarded(self, num_mixes: int, raw: bool) -> int:
        """How many samples enter the network for each raw sample."""


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
            both = check_logits(model(torch.cat([x, mixed])), rows=len(x) + len(mixed))
            raw_logits, mixed_logits = both.split([len(x), len(mixed)])
        else:
            raw_logits = check_logits(model(x), rows=len(x)) if raw else None
            mixed_logits = check_logits(model(mixed), rows=len(mixed))
        return Mixed(raw_logits, mixed_logits.unflatten(0, lam.shape), lam, partner)

    def forwarded(self, num_mixes: int, raw: bool) -> int:
        return num_mixes + raw
