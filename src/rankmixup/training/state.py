"""Everything that changes while a run trains."""

import time
from collections import defaultdict
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from rankmixup import methods
from rankmixup.data import Dataset
from rankmixup.runs import StoredRun, build_network
from rankmixup.training.checkpoint import Checkpoints
from rankmixup.training.fabric import set_up


class TrainingState:
    """Network, objective and optimiser of a run on the devices of `fabric`, and how far it has come; saved and read by `resume`."""

    def __init__(
        self,
        fabric: Fabric,
        store: StoredRun,
        dataset: Dataset,
        *,
        compile: bool = False,  # noqa: A002 - torch's own name for it
    ):
        self.fabric, self.store, self.run = fabric, store, store.run
        self.model = build_network(self.run, dataset.num_classes, dataset.view)
        self.run.method.check_model(self.model)
        self.objective = methods.objective(
            self.run.method,
            dataset.num_classes,
            seed=self.run.seed,
            class_counts=dataset.class_counts,
            dataset_size=len(dataset.train),
            rank=fabric.global_rank,
        ).to(fabric.device)
        if not (isinstance(dataset.train.x, Tensor) and dataset.train.x.is_floating_point()):
            # As batches made of bytes are.
            self.model.to(memory_format=torch.channels_last)
        self.step, self.optimiser = set_up(fabric, self.model, self.objective, self.run.optimisation, compile=compile)
        self.checkpoints = Checkpoints(store.checkpoints, self.run.id)
        self.epoch, self.steps_done, self.position, self.seconds = 0, 0, 0, 0.0
        """Epochs, steps of the next one, steps in all, and seconds of training."""
        self.terms: dict[str, list[Tensor]] = defaultdict(list)
        """The loss and its terms in each of `steps_done` steps."""
        self.best: dict[str, Any] = {}
        """Number, validation metrics and weights of the selected epoch so far."""
        self.generators: list[Tensor] | None = None
        """States of torch's global generators to go on with, within an epoch."""
        self.began = self.saved = time.monotonic()

    def end_epoch(self) -> None:
        """Count an epoch, and forget its steps."""
        self.epoch, self.steps_done = self.epoch + 1, 0
        self.terms.clear()
        self.count_time()

    def count_time(self) -> None:
        """Add the time since this was last called, or the epoch began, to the seconds of training."""
        now = time.monotonic()
        self.seconds += now - self.began
        self.began = now

    @property
    def where(self) -> str:
        """The last step, in words."""
        return f"epoch {self.epoch + 1}, step {self.steps_done}" if self.steps_done else f"epoch {self.epoch}"
