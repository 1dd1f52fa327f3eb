"""Manifold mixup: features are mixed inside the network, by a hook on any named layer."""

import contextlib
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from rankmixup.errors import InvalidInput, require, unknown_name
from rankmixup.mixers.base import Mixer, register
from rankmixup.mixers.mixup import mixup
from rankmixup.ops import check_logits
from rankmixup.types import Inputs, Mixed, call_model, map_leaves

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

    `layer="embeddings"` mixes what `get_input_embeddings()` of the model gives, as models of Hugging Face have it: embeddings of tokens,
    or of patches of an image. A mix attends where either of its samples does (the union of their masks, every input called
    `attention_mask`); of all other inputs (token types, positions) it has its own sample's. Behind any other layer masks stay the own
    sample's, so use layers behind the last attention there.
    """

    mixes_inputs = False

    layer: str = "last"
    """Dotted name of the layer behind which to mix; "last" is the last stage, "random" one of `layers` in each batch, "embeddings" the
    input embeddings."""
    layers: tuple[str, ...] = ()
    """Choices for `layer="random"`; all stages if empty."""
    forward: Literal["shared", "separate"] = "shared"
    """Raw and mixed features in one forward, or a raw forward followed by a mixed one."""

    def check(self) -> None:
        super().check()
        unused = f"layers must be given with layer='random', which draws one of them, got layer={self.layer!r} and layers={self.layers}"
        require(self.layer == "random" or not self.layers, unused)

    def forward_mixed(self, model: nn.Module, x: Inputs, rng: torch.Generator, raw: bool, lam: Tensor, partner: Tensor) -> Mixed:
        choices = self._choices(model)
        name = choices[0] if len(choices) == 1 else choices[int(torch.randint(len(choices), (), generator=rng))]
        layer = _layer(model, name)  # an unknown name is refused before a forward changes anything
        shared, size = raw and self.forward == "shared", lam.shape[1]
        raw_logits = check_logits(call_model(model, x), rows=size) if raw and not shared else None
        rows, fired = (len(lam) + shared) * size, 0

        def mix(module: nn.Module, inputs: Any, features: Any) -> Tensor:
            nonlocal fired
            fired += 1
            if not isinstance(features, Tensor) or features.ndim == 0 or len(features) != size:
                shape = list(features.shape) if isinstance(features, Tensor) else type(features).__name__
                raise InvalidInput(f"layer {name!r} must return one tensor [B, ...] with B = {size} to be mixed, got {shape}")
            mixes = mixup(features, lam, partner).flatten(0, 1)
            return torch.cat([features, mixes]) if shared else mixes

        handles = [layer.register_forward_hook(mix)]
        if layer is _input_embeddings(model):
            # What models add to embeddings (positions, token types, a class token) and their masks must have the rows of the mixes.
            x = map_leaves(functools.partial(_spread, partner=partner, shared=shared), x)
            first = functools.partial(_first_rows, rows=rows, size=size)
            handles.append(layer.register_forward_pre_hook(first, with_kwargs=True))
        try:
            logits = call_model(model, x)
        except RuntimeError as error:
            masked = isinstance(x, Mapping) and "attention_mask" in x and fired > 0 and len(handles) == 1
            rule = "must be 'embeddings' or a layer behind the last attention where inputs have an attention_mask"
            raise (InvalidInput(f"layer {rule}, got {name!r} ({error})") if masked else error) from error
        finally:
            for handle in handles:
                handle.remove()
        # A hook put on a compiled model is skipped without a word; raw logits would then pass for mixed ones.
        hint = " (a compiled model skips hooks: give the model before torch.compile)" if fired == 0 else ""
        require(fired == 1, f"layer {name!r} must run exactly once in a forward to be mixed behind, it ran {fired} times{hint}")
        logits = check_logits(logits, rows=rows)
        if shared:
            raw_logits, logits = logits[:size], logits[size:]
        return Mixed(raw_logits, logits.unflatten(0, lam.shape), lam, partner)

    def forwarded(self, num_mixes: int, raw: bool) -> int:
        if self.layer == "embeddings":  # nothing in front of it to be shared
            return num_mixes + raw
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


def _spread(name: str, leaf: Tensor, partner: Tensor, shared: bool) -> Tensor:
    """One input for the raw samples, if they share the forward, and for every mix: the own sample's, and of masks the union."""
    if name.rpartition(".")[2] != "attention_mask":
        return torch.cat([leaf] * (len(partner) + shared))
    return torch.cat([*([leaf] if shared else []), *(torch.maximum(leaf, leaf[each]) for each in partner)])


def _first_rows(module: nn.Module, args: Any, kwargs: Any, rows: int, size: int) -> Any:
    """What a layer is given, without the copies."""
    first = lambda value: value[:size] if isinstance(value, Tensor) and len(value) == rows else value  # noqa: E731
    return tuple(map(first, args)), {name: first(value) for name, value in kwargs.items()}


def _unwrapped(model: nn.Module) -> nn.Module:
    """The module inside the wrappers of torch.compile and DistributedDataParallel, whose layers have their own names."""
    while isinstance(model, nn.parallel.DistributedDataParallel) or hasattr(model, "_orig_mod"):
        model = model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model.get_submodule("_orig_mod")
    return model


def _input_embeddings(model: nn.Module) -> nn.Module | None:
    """The module that a model, or the one inside it, declares as its input embeddings; None if there is none."""
    model = _unwrapped(model)
    for owner in (model, getattr(model, "model", None), getattr(model, "base_model", None)):
        declared: Any = getattr(owner, "get_input_embeddings", lambda: None)
        with contextlib.suppress(NotImplementedError, AttributeError):  # as models without embeddings answer
            found = declared()
            if isinstance(found, nn.Module):
                return found
    return None


def _layer(model: nn.Module, name: str) -> nn.Module:
    embeddings = _input_embeddings(model) if name == "embeddings" else None
    if embeddings is not None:
        return embeddings
    layers = {layer: module for layer, module in _unwrapped(model).named_modules() if layer}
    if name == "embeddings" and name not in layers:
        raise InvalidInput(
            f"layer 'embeddings' needs a model with get_input_embeddings(), which {type(_unwrapped(model)).__name__} has not"
        )
    if name not in layers:
        raise unknown_name(f"layer of {type(_unwrapped(model)).__name__}", name, layers)
    return layers[name]
