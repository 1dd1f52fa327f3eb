"""The optimiser of a run, its learning rate as a function of time alone, so that there is no schedule to save, and one update."""

import math
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.wrappers import _FabricModule, _FabricOptimizer
from torch import Tensor, nn

from rankmixup.errors import WorkFailed
from rankmixup.mixers import stage_names
from rankmixup.models.weights import head_names, in_head
from rankmixup.runs import Optimisation
from rankmixup.types import Batch


def build_optimiser(model: nn.Module, optimisation: Optimisation) -> torch.optim.Optimizer:
    """The optimiser of all parameters of `model` that are trained; a "scale" of a group is a factor of its learning rate."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups: list[dict[str, Any]] = [{"params": parameters, "weight_decay": optimisation.weight_decay}]
    if not optimisation.decay_vectors:
        groups = [
            {"params": [parameter for parameter in parameters if parameter.ndim > 1], "weight_decay": optimisation.weight_decay},
            {"params": [parameter for parameter in parameters if parameter.ndim <= 1], "weight_decay": 0.0},
        ]
    if optimisation.layer_decay < 1:
        groups = _by_layer(model, groups, optimisation.layer_decay)
    if optimisation.optimiser == "adamw":
        return torch.optim.AdamW(groups, optimisation.lr)
    return torch.optim.SGD(groups, optimisation.lr, optimisation.momentum)


def _by_layer(model: nn.Module, groups: list[dict[str, Any]], layer_decay: float) -> list[dict[str, Any]]:
    """Each group divided by layers, with the scale layer_decay ** (L - l) for layer l of 0..L."""
    layers, found = parameter_layers(model), []
    of = {parameter: layers[name] for name, parameter in model.named_parameters()}
    for group in groups:
        for layer in sorted({of[parameter] for parameter in group["params"]}):
            members = [parameter for parameter in group["params"] if of[parameter] == layer]
            found.append({**group, "params": members, "scale": layer_decay ** (max(layers.values()) - layer)})
    return found


def parameter_layers(model: nn.Module) -> dict[str, int]:
    """Number of each parameter's layer, counted from 0 at the input; the head is the last.

    A layer is a child of the network, or a member of a sequence of them, such as a block. Normalisation, whose parameters are all of one
    dimension, belongs to the layer before it, and so do parameters outside of layers, such as positions.
    """
    opened, stages, heads = {""}, stage_names(model), head_names(model)
    for name, module in model.named_modules():
        # Not by exact types: sharding makes classes of its own of all.
        holds_blocks = isinstance(module, (nn.Sequential, nn.ModuleList)) or any(stage.startswith(f"{name}.") for stage in stages)
        if name and name.rpartition(".")[0] in opened and name not in heads and holds_blocks:
            opened.add(name)
    blocks: dict[str, list[str]] = {}
    for name, _ in model.named_parameters():
        parts = name.split(".")
        owner = next((path for end in range(1, len(parts)) if (path := ".".join(parts[:end])) not in opened), "")
        blocks.setdefault(owner or name, []).append(name)
    dimensions = {name: parameter.ndim for name, parameter in model.named_parameters()}
    layers: dict[str, int] = {}
    number, begun = 0, False
    for owner, names in blocks.items():
        if owner not in dimensions and max(dimensions[name] for name in names) > 1 and not in_head(names[0], heads):
            number, begun = number + begun, True
        layers |= dict.fromkeys(names, number)
    return layers | {name: number + 1 for name in layers if in_head(name, heads)}


def learning_rate(optimisation: Optimisation, epoch: int, step: int, steps: int) -> float:
    """Learning rate of step `step` of `steps` in epoch `epoch`, both counted from 0.

    >>> [round(learning_rate(Optimisation(), epoch, 0, 352), 6) for epoch in (0, 79, 80, 119, 120)]
    [0.1, 0.1, 0.01, 0.01, 0.001]
    """
    if optimisation.schedule == "steps":
        if epoch < optimisation.warmup:
            return optimisation.warmup_lr + (optimisation.lr - optimisation.warmup_lr) * (epoch + 1) / optimisation.warmup
        return math.prod((optimisation.decay for milestone in optimisation.milestones if milestone <= epoch), start=optimisation.lr)
    done = epoch + step / steps
    if done < optimisation.warmup:
        return optimisation.warmup_lr + (optimisation.lr - optimisation.warmup_lr) * done / optimisation.warmup
    share = (done - optimisation.warmup) / (optimisation.epochs - optimisation.warmup)
    return optimisation.final_lr + (optimisation.lr - optimisation.final_lr) * (1 + math.cos(math.pi * share)) / 2


def update(
    fabric: Fabric, step: _FabricModule, optimiser: _FabricOptimizer, batch: Batch, total: int, optimisation: Optimisation
) -> dict[str, Tensor]:
    """Forward, backward, clip and step on this process's share of a batch of `total` samples; its loss and its terms.

    Every sample counts the same, however unevenly parts and processes have divided the batch.
    """
    optimiser.zero_grad()
    terms: dict[str, Tensor] = {}
    count = min(optimisation.accumulate, len(batch.y))  # a last, small batch may have fewer samples than parts
    columns = ([None] * count if column is None else column.tensor_split(count) for column in (batch.x, batch.y, batch.index))
    parts = [Batch(*part) for part in zip(*columns, strict=True)]
    for done, part in enumerate(parts, start=1):
        with fabric.no_backward_sync(step, enabled=done < len(parts)):
            output = step(part.x, part.y, part.index)
            # The gradients of several processes are averaged.
            fabric.backward(output.loss * (len(part.y) * fabric.world_size / total))
        share = len(part.y) / len(batch.y)
        for name, value in {"loss": output.loss.detach(), **output.terms}.items():
            terms[name] = share * value + terms.get(name, 0.0)
    if optimisation.clip > 0:
        fabric.clip_gradients(step, optimiser, max_norm=optimisation.clip, error_if_nonfinite=False)
    try:
        optimiser.step()
    except RuntimeError as error:
        if "without overflow" not in str(error):
            raise
        lr = optimiser.param_groups[0]["lr"]
        raise WorkFailed(f"lr and weight_decay must be numbers of float32, got {lr:g} and {optimisation.weight_decay:g}") from error
    return terms
