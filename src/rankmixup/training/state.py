"""What a network and its optimiser hold, whole, however they are divided among processes."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.wrappers import _FabricOptimizer
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)

__all__ = ["PROGRESS", "check_progress", "load_model_state", "load_training_state", "model_state", "training_state"]

PROGRESS = ("epoch", "steps_done", "position", "seconds")
"""Attributes of a trainer that a checkpoint holds as they are."""


def model_state(model: nn.Module) -> dict[str, Any]:
    """Weights and buffers on the CPU; every process takes part, the first one gets them."""
    return get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))


def load_model_state(model: nn.Module, state: dict[str, Any]) -> None:
    """What `model_state` gave, which every process must have read."""
    # A copy, because torch puts this process's shares in the place of whole tensors.
    set_model_state_dict(model, dict(state), options=StateDictOptions(full_state_dict=True))


def training_state(fabric: Fabric, model: nn.Module, optimiser: _FabricOptimizer) -> dict[str, Any]:
    """All that an update depends on, but for the objective: weights, the optimiser's state, the scale of the loss of 16-mixed."""
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return {
        "model": model_state(model),
        "optimiser": get_optimizer_state_dict(model, optimiser.optimizer, options=options),
        "precision": fabric.strategy.precision.state_dict(),
    }


def load_training_state(fabric: Fabric, model: nn.Module, optimiser: _FabricOptimizer, state: dict[str, Any]) -> None:
    """What `training_state` gave, which every process must have read."""
    load_model_state(model, state["model"])
    set_optimizer_state_dict(model, optimiser.optimizer, state["optimiser"], options=StateDictOptions(full_state_dict=True))
    fabric.strategy.precision.load_state_dict(state["precision"])


def check_progress(state: Mapping[str, Any], epochs: int, steps: int) -> None:
    """Raise an error of any kind if what a checkpoint says of the progress of a run of `epochs` times `steps` cannot be."""
    epoch, steps_done, position, seconds = (state[name] for name in PROGRESS)
    numbers = all(type(number) is int for number in (epoch, steps_done, position)) and type(seconds) is float
    if not numbers or not (0 <= epoch <= epochs and 0 <= steps_done <= steps and position >= 0 and 0 <= seconds < math.inf):
        raise ValueError(f"{', '.join(PROGRESS)} are {epoch!r}, {steps_done!r}, {position!r}, {seconds!r}")
    if not isinstance(state["model"], dict) or not state["model"]:
        raise ValueError("it has no weights")
    if not isinstance(state["processes"], list) or not state["processes"]:
        raise ValueError("it has no states of processes")
    for process in state["processes"]:
        if any(values.shape != (steps_done,) for values in process["terms"].values()):
            raise ValueError(f"terms must be of {steps_done} steps")
        if any(generator.dtype != torch.uint8 for generator in process["generators"] or ()):
            raise ValueError("states of generators must be bytes")
