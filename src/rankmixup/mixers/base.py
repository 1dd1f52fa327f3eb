"""What every mixer does: draw lambda and partner, run the forwards of the step, give everything back."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from rankmixup import random
from rankmixup.config import Configured, added_field
from rankmixup.errors import InvalidInput, require, require_flag, require_whole, shown
from rankmixup.ops import PlainArray, check_floats, check_indices, check_logits, check_unit
from rankmixup.registry import Registry
from rankmixup.types import Inputs, Mixed, batch_size, call_model, map_leaves, named_leaves

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
        x: Inputs,
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
            x: Inputs `[B, ...]`: a tensor, a tuple or a mapping of tensors; to be mixed, some must be floating point.
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
        if not isinstance(model, nn.Module):  # not `require`, whose message would be made in every step, out of all layers of a network
            raise InvalidInput(f"model must be a torch.nn.Module, got {shown(model)}; wrap a function in a module")
        require(isinstance(rng, torch.Generator), f"rng must be a torch.Generator, got {shown(rng)}")
        if self.mixes_inputs:
            self.check_dtypes(x)
        size, device = batch_size(x), (x if isinstance(x, Tensor) else next(iter(named_leaves(x).values()))).device
        if lam is None:
            width = size if self.lam_mode == "sample" else 1
            lam = random.beta(self.alpha, (num_mixes, width), rng).expand(num_mixes, size)
        if partner is None:
            partner = random.permutations(num_mixes, size, rng)
        lam, partner = check_unit("lam", lam), check_indices("partner", partner, size)
        for name, given in (("lam", lam), ("partner", partner)):
            require(given.shape == (num_mixes, size), f"{name} must have shape {[num_mixes, size]}, got {list(given.shape)}")
        return self.forward_mixed(model, x, rng, raw, lam.to(device), partner.to(device))

    @abstractmethod
    def forward_mixed(self, model: nn.Module, x: Inputs, rng: torch.Generator, raw: bool, lam: Tensor, partner: Tensor) -> Mixed:
        """Run the forwards with `lam` and `partner` settled."""

    def check_dtypes(self, x: Inputs) -> None:
        """Raise `InvalidInput` if `x` holds nothing that can be mixed."""
        hint = '(mix after normalising; of token ids, mix the embeddings, with ManifoldMixup(layer="embeddings"))'
        if isinstance(x, Tensor):
            require(x.dtype.is_floating_point, f"x must be floating point {hint}, got {x.dtype}")
            check_floats("x", x)
            return
        found = {name: leaf.dtype for name, leaf in named_leaves(x).items()}
        require(any(dtype.is_floating_point for dtype in found.values()), f"x must hold a floating point tensor {hint}, got {shown(found)}")

    def check_input(self, shape: tuple[int, ...]) -> None:
        """Raise `InvalidInput` if inputs of this shape, without the batch, cannot be mixed."""

    def check_model(self, model: nn.Module) -> None:
        """Raise `InvalidInput` if this mixer cannot mix for `model`."""

    @abstractmethod
    def forwarded(self, num_mixes: int, raw: bool) -> int:
        """How many samples enter the network for each raw sample."""


@dataclass(frozen=True)
class InputMixer(Mixer):
    """A mixer that mixes inputs, so that the network sees nothing but ordinary batches.

    Of a tuple or mapping of tensors, all that are floating point are mixed, or those named by `mixes`, each with the same lambda and
    partner. Of the others (integers, masks), a mix has the values of its own sample, not of its partner.
    """

    forward: Literal["separate", "joint"] = "separate"
    """Raw samples and mixes in two forwards (each with its own BatchNorm statistics), or in one."""
    mixes: tuple[str, ...] = added_field(())
    """Names of the inputs to mix, where there are several; all that are floating point if empty."""

    @abstractmethod
    def mix(self, x: Tensor, rng: torch.Generator, lam: Tensor, partner: Tensor) -> tuple[Tensor, Tensor]:
        """Mixed inputs `[M * B, ...]`, mix-major, and the lambda they really have, `[M, B]`."""

    def forward_mixed(self, model: nn.Module, x: Inputs, rng: torch.Generator, raw: bool, lam: Tensor, partner: Tensor) -> Mixed:
        mixed, lam = self.mix(x, rng, lam, partner) if isinstance(x, Tensor) else self._mix_leaves(x, rng, lam, partner)
        size, mixes = lam.shape[1], lam.numel()
        raw_logits: Tensor | None
        if raw and self.forward == "joint":
            joint = map_leaves(lambda _, *parts: torch.cat(parts), x, mixed)
            raw_logits, mixed_logits = check_logits(call_model(model, joint), rows=size + mixes).split([size, mixes])
        else:
            raw_logits = check_logits(call_model(model, x), rows=size) if raw else None
            mixed_logits = check_logits(call_model(model, mixed), rows=mixes)
        return Mixed(raw_logits, mixed_logits.unflatten(0, lam.shape), lam, partner)

    def check_dtypes(self, x: Inputs) -> None:
        super().check_dtypes(x)
        names = {} if isinstance(x, Tensor) else {name: leaf.dtype for name, leaf in named_leaves(x).items()}
        for name in self.mixes:
            floats = names.get(name, torch.long).is_floating_point
            require(floats, f"mixes must name floating point inputs, got {name!r} of {shown(names) if names else 'a single tensor'}")

    def _mix_leaves(self, x: Inputs, rng: torch.Generator, lam: Tensor, partner: Tensor) -> tuple[Inputs, Tensor]:
        """As `mix`, each tensor with the same draws."""
        state, cut = rng.get_state(), dict[str, Tensor]()

        def mix(name: str, leaf: Tensor) -> Tensor:
            if name not in self.mixes if self.mixes else not leaf.is_floating_point():
                return torch.cat([leaf] * len(lam))
            rng.set_state(state)
            mixed, cut[name] = self.mix(leaf, rng, lam, partner)
            return mixed

        mixed = map_leaves(mix, x)
        first, *rest = cut.values()
        same = first.device.type != "cpu" or all(torch.equal(first, each) for each in rest)
        require(same, f"inputs that are cut must have one height and width, got {list(cut)} that differ; name one of them with mixes=")
        return mixed, first

    def forwarded(self, num_mixes: int, raw: bool) -> int:
        return num_mixes + raw
