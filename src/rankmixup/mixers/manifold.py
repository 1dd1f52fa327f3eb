"""Manifold mixup: features are mixed inside the network, by a hook on any named layer."""

import re
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from rankmixup.errors import InvalidInput, require, unknown_name
from rankmixup.mixers.base import Mixer, register
from rankmixup.mixers.mixup import mixup
from rankmixup.ops import check_logits
from rankmixup.types import Mixed

_SEQUENCES = ("stages", "blocks", "features", "layers", "trunk_output", "encoder.layers")
"""What networks of torchvision and timm call the sequence of their stages."""


def stage_names(model: nn.Module) -> tuple[str, ...]:
    """Names of a network's stages, first to last; empty if it has none that can be told.

    They are its own tuple `stages`, or children called `layer1`, `stage1` or `s1` and so on, or the members of a sequence with
    one of the names that torchvision and timm use.
    """
    declared = getattr(model, "stages", ())
    if declared and isinstance(declared, tuple) and all(isinstance(stage, str) for stage in declared):
        return declared
    numbered = tuple(name for name, _ in model.named_children() if re.fullmatch(r"(layer|stage|s)\d+", name))
    sequences = ((name, module) for name, module in model.named_modules() if name in _SEQUENCES and isinstance(module, nn.Sequential))
    return numbered or next((tuple(f"{name}.{child}" for child, _ in module.named_children()) for name, module in sequences), ())


@register("manifold")
@dataclass(frozen=True)
class ManifoldMixup(Mixer):
    """Features mixed behind a named layer.

    With `forward="shared"` raw features and their mixes leave the layer in one batch: the layers in front of it are paid
    once, and at the last stage RankMixup costs what cross-entropy costs.
    **Deviation:** one fixed layer, the last stage, as in the paper's release; `layer="random"` draws one of `layers` for
    every batch, as in the original manifold mixup. The release runs the trunk twice (`forward="separate"`).
    """

    layer: str = "last"
    """Dotted name of the layer behind which to mix; "last" is the last stage, "random" one of `layers` in each batch."""
    layers: tuple[str, ...] = ()
    """Choices for `layer="random"`; all stages if empty."""
    forward: Literal["shared", "separate"] = "shared"
    """Raw and mixed features in one forward, or a raw forward followed by a mixed one."""

    def check(self) -> None:
        super().check()
        unused = f"layers must be given with layer='random', which draws one of them, got layer={self.layer!r} and layers={self.layers}"
        require(self.layer == "random" or not self.layers, unused)

    def forward_mixed(self, model: nn.Module, x: Tensor, rng: torch.Generator, raw: bool, lam: Tensor, partner: Tensor) -> Mixed:
        choices = self._choices(model)
        name = choices[0] if len(choices) == 1 else choices[int(torch.randint(len(choices), (), generator=rng))]
        layer = _layer(model, name)  # an unknown name is refused before a forward changes anything
        shared = raw and self.forward == "shared"
        raw_logits = check_logits(model(x), rows=len(x)) if raw and not shared else None
        fired = 0

        def mix(module: nn.Module, inputs: Any, features: Any) -> Tensor:
            nonlocal fired
            fired += 1
            if not isinstance(features, Tensor) or features.ndim == 0 or len(features) != len(x):
                shape = list(features.shape) if isinstance(features, Tensor) else type(features).__name__
                raise InvalidInput(f"layer {name!r} must return one tensor [B, ...] with B = {len(x)} to be mixed, got {shape}")
            mixes = mixup(features, lam, partner).flatten(0, 1)
            return torch.cat([features, mixes]) if shared else mixes

        handle = layer.register_forward_hook(mix)
        try:
            logits = model(x)
        finally:
            handle.remove()
        # A hook put on a compiled model is skipped without a word; raw logits would then pass for mixed ones.
        hint = " (a compiled model skips hooks: give the model before torch.compile)" if fired == 0 else ""
        require(fired == 1, f"layer {name!r} must run exactly once in a forward to be mixed behind, it ran {fired} times{hint}")
        logits = check_logits(logits, rows=(len(lam) + shared) * len(x))
        if shared:
            raw_logits, logits = logits[: len(x)], logits[len(x) :]
        return Mixed(raw_logits, logits.unflatten(0, lam.shape), lam, partner)

    def forwarded(self, num_mixes: int, raw: bool) -> int:
        return 2 if raw and self.forward == "separate" else 1

    def check_model(self, model: nn.Module) -> None:
        for layer in self._choices(model):
            _layer(model, layer)

    def _choices(self, model: nn.Module) -> tuple[str, ...]:
        if self.layer == "random" and self.layers:
            return self.layers
        if self.layer not in ("last", "random"):
            return (self.layer,)
        stages, architecture = stage_names(_unwrapped(model)), type(_unwrapped(model)).__name__
        require(len(stages) > 0, f"layer {self.layer!r} needs a model that names its stages, which {architecture} does not; name a layer")
        return stages[-1:] if self.layer == "last" else stages


def _unwrapped(model: nn.Module) -> nn.Module:
    """The module behind torch.compile's wrapper, whose layers have their own names."""
    return getattr(model, "_orig_mod", model)


def _layer(model: nn.Module, name: str) -> nn.Module:
    layers = {layer: module for layer, module in _unwrapped(model).named_modules() if layer}
    if name not in layers:
        raise unknown_name(f"layer of {type(_unwrapped(model)).__name__}", name, layers)
    return layers[name]
