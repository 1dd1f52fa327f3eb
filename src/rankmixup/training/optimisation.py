"""The optimiser of a run, and its learning rate as a function of time alone, so that there is no schedule to save and restore."""

import math

import torch
from torch import nn

from rankmixup.runs import Optimisation

__all__ = ["build_optimiser", "learning_rate"]


def build_optimiser(model: nn.Module, recipe: Optimisation) -> torch.optim.Optimizer:
    """The optimiser of all parameters of `model` that are trained."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [{"params": parameters, "weight_decay": recipe.weight_decay}]
    if not recipe.decay_vectors:
        groups = [
            {"params": [parameter for parameter in parameters if parameter.ndim > 1], "weight_decay": recipe.weight_decay},
            {"params": [parameter for parameter in parameters if parameter.ndim <= 1], "weight_decay": 0.0},
        ]
    if recipe.optimiser == "adamw":
        return torch.optim.AdamW(groups, recipe.lr)
    return torch.optim.SGD(groups, recipe.lr, recipe.momentum)


def learning_rate(recipe: Optimisation, epoch: int, step: int, steps: int) -> float:
    """Learning rate of step `step` of `steps` in epoch `epoch`, both counted from 0.

    >>> [round(learning_rate(Optimisation(), epoch, 0, 352), 6) for epoch in (0, 79, 80, 119, 120)]
    [0.1, 0.1, 0.01, 0.01, 0.001]
    """
    if recipe.schedule == "steps":
        if epoch < recipe.warmup:
            return recipe.warmup_lr + (recipe.lr - recipe.warmup_lr) * (epoch + 1) / recipe.warmup
        lr = recipe.lr
        for milestone in recipe.milestones:
            if milestone <= epoch:
                lr *= recipe.decay
        return lr
    done = epoch + step / steps
    if done < recipe.warmup:
        return recipe.warmup_lr + (recipe.lr - recipe.warmup_lr) * done / recipe.warmup
    share = (done - recipe.warmup) / (recipe.epochs - recipe.warmup)
    return recipe.final_lr + (recipe.lr - recipe.final_lr) * (1 + math.cos(math.pi * share)) / 2
