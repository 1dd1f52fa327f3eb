"""Weights from elsewhere: read without executing anything, and put into a network whose head may be for other classes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rankmixup.errors import InvalidInput, listed, require
from rankmixup.files import read_pt, readable

_PREFIXES = ("module.", "_orig_mod.")
"""What DistributedDataParallel and torch.compile put in front of every name."""
_INSIDE = ("state_dict", "model")
"""Where checkpoints hold the weights beside other things; "model" in those of runs."""
_EXPORTED = "network."
"""What `rankmixup export` puts in front of every name, beside those of the calibration."""
_ENDINGS = (".safetensors", ".pt", ".pth")
_SHOWN = 4


def head_names(model: nn.Module) -> tuple[str, ...]:
    """Names of the layers that return the logits: those that timm names, else the last linear or convolutional layer."""
    config = getattr(model, "pretrained_cfg", None)
    named = config.get("classifier") if isinstance(config, Mapping) else None
    modules = dict(model.named_modules())
    known = [name for name in ([named] if isinstance(named, str) else named or ()) if name in modules]
    return tuple(known or [name for name, module in modules.items() if isinstance(module, (nn.Linear, nn.Conv2d))][-1:])


def in_head(name: str, heads: tuple[str, ...]) -> bool:
    """Whether a parameter of this name belongs to one of the layers `heads`."""
    return name.startswith(tuple(f"{head}." for head in heads))


def check_weights_file(path: Path) -> None:
    """Raise unless there is a file at `path` whose ending is one that `read_weights` reads."""
    rule = f"weights {path} must be a {', '.join(_ENDINGS)} file"
    require(path.suffix.lower() in _ENDINGS, f"{rule}, got {path.suffix or 'no ending'!r}")
    require(path.is_file(), f"{rule}, {'it is a folder' if path.is_dir() else 'there is no such file'}")


def read_weights(path: Path) -> dict[str, Tensor]:
    """Tensors by name, of a file of them or of a checkpoint that holds them as `state_dict` or `model`."""
    check_weights_file(path)
    kind = path.suffix.lower()
    with readable(path, f"a whole {kind} file", Exception):  # each library has its own errors for damaged files
        if kind == ".safetensors":
            from safetensors.torch import load_file

            held: Any = load_file(path)
        else:
            held = read_pt(path)
    for name in _INSIDE:
        if isinstance(held, Mapping) and isinstance(held.get(name), Mapping):
            held = held[name]
    if isinstance(held, Mapping) and any(str(name).startswith(_EXPORTED) for name in held):
        held = {name.removeprefix(_EXPORTED): value for name, value in held.items() if not str(name).startswith("calibration.")}
    valid = isinstance(held, Mapping) and bool(held) and all(isinstance(name, str) for name in held)
    require(valid, f"weights {path} must hold tensors by name, or a 'state_dict' or 'model' of them, got {type(held).__name__}")
    others = [name for name, value in held.items() if not isinstance(value, Tensor)]
    require(not others, f"weights {path} must hold nothing but tensors, {listed(others, _SHOWN)} are others")
    return dict(held)


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], origin: str) -> str:
    """Copy weights into a network. A head of another number of classes, or one that is not there, is left as it is.

    Args:
        model: The network.
        weights: By name, which may begin with `module.` or `_orig_mod.`.
        origin: What errors and the answer call them.

    Returns:
        What was copied and what was not, in a sentence.
    """
    while weights and (prefix := next(iter(weights)).partition(".")[0] + ".") in _PREFIXES and all(n.startswith(prefix) for n in weights):
        weights = {name.removeprefix(prefix): value for name, value in weights.items()}
    own, heads = model.state_dict(), head_names(model)
    # What BatchNorm counts is in no file that is older than it.
    absent = [name for name in own if name not in weights and not name.endswith("num_batches_tracked")]
    found = {name: (tuple(weights[name].shape), tuple(value.shape)) for name, value in own.items() if name in weights}
    misfits = [name for name, (its, ours) in found.items() if its != ours]
    fresh = {name for name in (*absent, *misfits) if in_head(name, heads) and (name in absent or _same_but_classes(*found[name]))}
    unknown = [name for name in weights if name not in own]
    shapes = [f"{name} of shape {list(found[name][0])} instead of {list(found[name][1])}" for name in misfits if name not in fresh]
    missing = [name for name in absent if name not in fresh]
    for rule, names in (("lack no tensor of it", missing), ("hold no other tensors", unknown), ("have its shapes", shapes)):
        require(not names, f"{origin} must fit {type(model).__name__} and {rule}, got {listed(names, _SHOWN)}")
    if fresh:
        fresh = {name for name in own if in_head(name, heads)}
    chosen = {name: weights[name] for name in found if name not in fresh}
    for name, value in chosen.items():
        plain = value.layout == torch.strided and value.is_floating_point() == own[name].is_floating_point()
        require(plain, f"{name} of {origin} must be like {own[name].dtype}, got {value.dtype}")
        require(bool(value.isfinite().all()), f"{name} of {origin} must be finite, it is not")
    model.load_state_dict(chosen, strict=False)
    return f"{len(chosen)} of {len(own)} tensors from {origin}{_about_head(sorted(fresh, reverse=True), found)}"


def _same_but_classes(its: tuple[int, ...], ours: tuple[int, ...]) -> bool:
    return len(its) == len(ours) > 0 and its[1:] == ours[1:]


def _about_head(fresh: list[str], found: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]) -> str:
    if not fresh:
        return ""
    classes = next(
        (f"{ours[0]} classes instead of {its[0]}" for name in fresh if name in found for its, ours in [found[name]]), "no head there"
    )
    return f"; {', '.join(fresh)} start at random: {classes}"


def freeze_body(model: nn.Module) -> None:
    """Train nothing but the head."""
    heads = head_names(model)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(parameter.requires_grad and in_head(name, heads))
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InvalidInput(f"freeze must leave a linear layer to train, {type(model).__name__} has none")


def train_head(model: nn.Module) -> None:
    """Training mode for the head alone: BatchNorm statistics of the frozen rest stay, and nothing in it is dropped."""
    model.eval()
    for name in head_names(model):
        model.get_submodule(name).train()
