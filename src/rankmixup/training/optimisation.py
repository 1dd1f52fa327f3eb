"""The optimiser of a run, and its learning rate as a function of time alone, so that there is no schedule to save and restore."""

import math

import torch
from torch import nn

from rankmixup.runs import Optimisation


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
