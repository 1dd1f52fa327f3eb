"""The state of training, and exact resumption: it goes into a checkpoint, and comes back from the newest one that can be read."""

import math
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.wrappers import _FabricOptimizer
from torch import Tensor, nn
from torch.distributed.checkpoint import state_dict as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions

from rankmixup import random
from rankmixup.data import Dataset
from rankmixup.errors import WorkFailed
from rankmixup.models.own import evaluated_parts, train_all_but
from rankmixup.models.weights import freeze_body, train_head
from rankmixup.runs import StoredRun
from rankmixup.runs.checkpoint import Checkpoints
from rankmixup.training.check import prepare
from rankmixup.training.fabric import set_up
from rankmixup.training.initial import initialise
from rankmixup.training.processes import gather, on_first_process

KEPT = "the last checkpoint was saved before; try a smaller lr"
"""Ends the sentence on numbers that are not finite."""
_PROGRESS = ("epoch", "steps_done", "position", "seconds")
"""Attributes that a checkpoint holds as they are."""
_READ, _WRITTEN = StateDictOptions(full_state_dict=True, cpu_offload=True), StateDictOptions(full_state_dict=True)


class TrainingState:
    """Network, objective and optimiser of a run on the devices of `fabric`, and how far it has come."""

    def __init__(self, fabric: Fabric, store: StoredRun, dataset: Dataset, *, compiled: bool, model: nn.Module | None = None):
        self.fabric, self.store, self.run = fabric, store, store.run
        self.model, objective = prepare(self.run, dataset, rank=fabric.global_rank, model=model)
        self._evaluated = evaluated_parts(self.model)
        self.checkpoints = Checkpoints(store.checkpoints, self.run.id)
        self.start = ""
        """What weights it started with, unless they are drawn or there is a checkpoint."""
        if self.run.weights is not None and not self.checkpoints.exist:
            with fabric.rank_zero_first():  # which downloads what the others then find
                self.start = initialise(self.model, self.run, dataset.view)
        if self.run.freeze:
            freeze_body(self.model)
        self.objective = objective.to(fabric.device)
        if dataset.view.values == "bytes" and not (isinstance(dataset.train.x, Tensor) and dataset.train.x.is_floating_point()):
            # As batches made of bytes are.
            self.model.to(memory_format=torch.channels_last)
        self.step, self.optimiser = set_up(fabric, self.model, self.objective, self.run.optimisation, compiled=compiled)
        self.epoch, self.steps_done, self.position, self.seconds = 0, 0, 0, 0.0
        """Epochs, steps of the next one, steps in all, and seconds of training."""
        self.terms: dict[str, list[Tensor]] = defaultdict(list)
        """The loss and its terms in each of `steps_done` steps."""
        self.best: dict[str, Any] = {}
        """Number, validation metrics and weights of the selected epoch so far."""
        self.generators: list[Tensor] | None = None
        """States of torch's global generators to go on with, within an epoch."""
        self.began = self.saved = time.monotonic()

    def train_mode(self) -> None:
        """Set the network to training mode, or its head alone if the rest is frozen; what was frozen when it was given stays so."""
        self.objective.train()
        train_all_but(self.model, self._evaluated)
        if self.run.freeze:
            train_head(self.model)

    def count_time(self) -> None:
        """Add the time since this was last called, or the epoch began, to the seconds of training."""
        now = time.monotonic()
        self.seconds += now - self.began
        self.began = now

    @property
    def where(self) -> str:
        """The last step, in words."""
        return f"epoch {self.epoch + 1}, step {self.steps_done}" if self.steps_done else f"epoch {self.epoch}"


def save_checkpoint(state: TrainingState) -> None:
    """Write a checkpoint; every process takes part."""
    state.count_time()
    own = {
        "objective": {name: value.cpu() for name, value in state.objective.state_dict().items()},
        "generators": random.global_state(state.fabric.device) if state.steps_done else None,
        "terms": {name: torch.stack(values).cpu() for name, values in state.terms.items()},
    }
    content = {
        **training_state(state.fabric, state.model, state.optimiser),
        "processes": gather(state.fabric, own),
        **{name: getattr(state, name) for name in _PROGRESS},
    }

    def write() -> None:
        for name, value in content["model"].items():
            if value.is_floating_point() and not value.isfinite().all():
                where = f"epoch {state.epoch + 1}, step {state.steps_done}"
                raise WorkFailed(f"{name} of the network must stay finite, which it is not in {where}; {KEPT}")
        state.checkpoints.save(state.position, content, state.best)

    on_first_process(state.fabric, write)
    state.saved = time.monotonic()


def resume(state: TrainingState, steps: int) -> list[str]:
    """Go on from the newest checkpoint that can be read, if there is any; what the user must know about it.

    Args:
        state: A state that has not been trained yet.
        steps: Steps of an epoch.
    """
    path, warnings = on_first_process(state.fabric, state.checkpoints.newest)
    if path is None:
        return []
    if warnings:
        warnings = [f"{'; '.join(warnings)}; going on from {path.name}, the one before"]
    content = state.checkpoints.load(path)
    try:
        _check(content, state.run.optimisation.epochs, steps)
        _restore(state, content)
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise WorkFailed(f"checkpoint {path} does not fit its run ({type(error).__name__}: {error})") from error
    before, now = len(content["processes"]), state.fabric.world_size
    if before != now:
        warnings.append(f"run {state.store.path} goes on with {now} processes instead of {before}: not bit for bit as before")
    return warnings


def _restore(state: TrainingState, content: dict[str, Any]) -> None:
    load_training_state(state.fabric, state.model, state.optimiser, content)
    for name in _PROGRESS:
        setattr(state, name, content[name])
    state.best = content["best"]
    processes, rank = content["processes"], state.fabric.global_rank
    known = rank < len(processes)
    own = processes[rank if known else 0]
    state.objective.load_state_dict(own["objective"])
    state.terms.update({name: list(values.to(state.fabric.device)) for name, values in own["terms"].items()})
    if known:
        state.generators = own["generators"]
    else:
        state.objective.draw_from(random.stream(state.run.seed, "mixing", rank, state.epoch, state.steps_done))


def _check(content: Mapping[str, Any], epochs: int, steps: int) -> None:
    """Raise an error of any kind if the progress in a checkpoint cannot be that of a run of `epochs` times `steps`."""
    epoch, steps_done, position, seconds = (content[name] for name in _PROGRESS)
    numbers = all(type(number) is int for number in (epoch, steps_done, position)) and type(seconds) is float
    if not numbers or not (0 <= epoch <= epochs and 0 <= steps_done <= steps and position >= 0 and 0 <= seconds < math.inf):
        raise ValueError(f"{', '.join(_PROGRESS)} are {epoch!r}, {steps_done!r}, {position!r}, {seconds!r}")
    for name, kind, what in (("model", dict, "weights"), ("processes", list, "states of processes")):
        if not isinstance(content[name], kind) or not content[name]:
            raise ValueError(f"it has no {what}")
    for process in content["processes"]:
        if any(values.shape != (steps_done,) for values in process["terms"].values()):
            raise ValueError(f"terms must be of {steps_done} steps")
        if any(generator.dtype != torch.uint8 for generator in process["generators"] or ()):
            raise ValueError("states of generators must be bytes")


def model_state(model: nn.Module) -> dict[str, Any]:
    """Weights and buffers on the CPU, whole even if they are divided; every process takes part, the first one gets them."""
    return dcp.get_model_state_dict(model, options=_READ)


def load_model_state(model: nn.Module, state: dict[str, Any]) -> None:
    """What `model_state` gave, which every process must have read."""
    # A copy, because torch puts this process's shares in the place of whole tensors.
    dcp.set_model_state_dict(model, dict(state), options=_WRITTEN)


def training_state(fabric: Fabric, model: nn.Module, optimiser: _FabricOptimizer) -> dict[str, Any]:
    """Everything but the objective that an update depends on: weights, the optimiser's state, the scale of the loss of 16-mixed."""
    return {
        "model": model_state(model),
        "optimiser": dcp.get_optimizer_state_dict(model, optimiser.optimizer, options=_READ),
        "precision": fabric.strategy.precision.state_dict(),
    }


def load_training_state(fabric: Fabric, model: nn.Module, optimiser: _FabricOptimizer, state: dict[str, Any]) -> None:
    """What `training_state` gave, which every process must have read."""
    load_model_state(model, state["model"])
    dcp.set_optimizer_state_dict(model, optimiser.optimizer, state["optimiser"], options=_WRITTEN)
    fabric.strategy.precision.load_state_dict(state["precision"])
