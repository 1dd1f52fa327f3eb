"""What a network and its optimiser hold, whole, however they are divided among processes."""

from typing import Any

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

__all__ = ["load_model_state", "load_training_state", "model_state", "training_state"]


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
