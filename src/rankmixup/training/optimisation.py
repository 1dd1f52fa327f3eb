"""The optimiser of a run, its learning rate as a function of time alone, so that there is no schedule to save, and one update."""

import math

import torch
from lightning_fabric import Fabric
from lightning_fabric.wrappers import _FabricModule, _FabricOptimizer
from torch import Tensor, nn

from rankmixup.errors import WorkFailed
from rankmixup.runs import Optimisation
from rankmixup.types import Batch


def build_optimiser(model: nn.Module, optimisation: Optimisation) -> torch.optim.Optimizer:
    """The optimiser of all parameters of `model` that are trained."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [{"params": parameters, "weight_decay": optimisation.weight_decay}]
    if not optimisation.decay_vectors:
        groups = [
            {"params": [parameter for parameter in parameters if parameter.ndim > 1], "weight_decay": optimisation.weight_decay},
            {"params": [parameter for parameter in parameters if parameter.ndim <= 1], "weight_decay": 0.0},
        ]
    if optimisation.optimiser == "adamw":
        return torch.optim.AdamW(groups, optimisation.lr)
    return torch.optim.SGD(groups, optimisation.lr, optimisation.momentum)


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
