"""One run in the making: what changes while it trains, how it is saved, and what it leaves behind."""

import dataclasses
import itertools
import math
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from rankmixup import methods, random
from rankmixup.data import Dataset, steps_per_epoch, training_batches
from rankmixup.errors import WorkFailed, require
from rankmixup.files import write_json, write_npz
from rankmixup.metrics import all_metrics
from rankmixup.models import build_model
from rankmixup.runs import Scores, StoredRun
from rankmixup.training.checkpoint import load_checkpoint, save_checkpoint
from rankmixup.training.optimisation import build_optimiser, learning_rate
from rankmixup.training.predict import predict, predict_mixed
from rankmixup.training.result import summarise
from rankmixup.types import Batch

__all__ = ["Trainer"]

_SEGMENT = 100
"""Steps between two moments of an epoch at which it can be saved and taken up again."""
_SAVE_AFTER = 300.0
"""Seconds since the last checkpoint after which it is saved."""


_STATE = {"model", "optimiser", "objective", "epoch", "steps_done", "terms", "seconds", "best"}
"""What a checkpoint holds."""


class Trainer:
    """Everything that changes while a run trains."""

    def __init__(self, fabric: Fabric, store: StoredRun, dataset: Dataset, workers: int | None = None):
        run, recipe = store.run, store.run.optimisation
        self.fabric, self.store, self.run, self.workers = fabric, store, run, workers
        self.dataset = dataclasses.replace(dataset, train=dataset.train.to(fabric.device))
        with random.global_seed(run.seed, "weights"):
            sizes = {"num_classes": dataset.num_classes, "image_size": dataset.image_size, "in_channels": dataset.in_channels}
            self.model = build_model(run.model, **sizes)
        run.method.check_model(self.model)
        self.objective = methods.objective(
            run.method,
            dataset.num_classes,
            seed=run.seed,
            class_counts=dataset.class_counts,
            dataset_size=len(dataset.train),
            rank=fabric.global_rank,
        ).to(fabric.device)
        if not (isinstance(dataset.train.x, Tensor) and dataset.train.x.is_floating_point()):
            # As batches made of bytes are.
            self.model.to(memory_format=torch.channels_last)
        self.step, self.optimiser = fabric.setup(methods.TrainStep(self.model, self.objective), build_optimiser(self.model, recipe))
        self.steps = steps_per_epoch(dataset, recipe.batch_size, sampling=run.data.sampling, world_size=fabric.world_size)
        self.epoch, self.steps_done, self.seconds = 0, 0, 0.0
        self.terms: dict[str, list[Tensor]] = defaultdict(list)
        self.best: dict[str, Any] = {}
        self._began = self._saved = time.monotonic()

    def train_epoch(self) -> dict[str, Any]:
        """What is left of a pass over the training set, its validation and its checkpoint; returns the record that went to the log."""
        fabric, run = self.fabric, self.run
        self._began = time.monotonic()
        self.objective.epoch = self.epoch
        self.step.train()
        batches = training_batches(
            self.dataset,
            run.optimisation.batch_size,
            seed=run.seed,
            epoch=self.epoch,
            sampling=run.data.sampling,
            rank=fabric.global_rank,
            world_size=fabric.world_size,
            device=fabric.device,
            start=self.steps_done,
            workers=self.workers,
        )
        while self.steps_done < self.steps:
            # Dropout and its like draw from torch's global generator: seeded for each segment, so that a resumed run draws the same.
            names = (self.epoch, fabric.global_rank, *([self.steps_done] if self.steps_done else []))
            with random.global_seed(run.seed, "epoch", *names):
                for batch in itertools.islice(batches, _SEGMENT):
                    self._train_step(batch)
            # Asked of one process, whose clock is then everybody's.
            if self.steps_done < self.steps and fabric.broadcast(time.monotonic() - self._saved >= _SAVE_AFTER):
                self._save()
        figures = {name: torch.stack(values).mean().item() for name, values in self.terms.items()}
        self.epoch, self.steps_done = self.epoch + 1, 0
        self.terms.clear()
        logits = predict(fabric, self.model, self.dataset.val, self.dataset.view, workers=self.workers)
        # Before anything is saved: the checkpoint before this epoch is still good.
        for name, value in {**figures, "validation logits": logits.sum().item()}.items():
            if not math.isfinite(value):
                raise WorkFailed(f"{name} of {run.method.name} must stay finite, got {value} in epoch {self.epoch}; try a smaller lr")
        val = all_metrics(logits, self.dataset.val.y, from_logits=True)
        self._count_time()
        record = {"epoch": self.epoch, "train": figures, "val": val, "seconds": self.seconds}
        if self._improves(val):
            self.best = {"epoch": self.epoch, "val": val}
            if fabric.is_global_zero:
                save_checkpoint(self.store.checkpoints / "best.pt", {"model": self.model.state_dict(), **self.best})
        if fabric.is_global_zero:
            self.store.log(record)
        self._save()
        return record

    def _train_step(self, batch: Batch) -> None:
        recipe = self.run.optimisation
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(recipe, self.epoch, self.steps_done, self.steps)
        output = self.step(batch.x, batch.y, batch.index)
        self.optimiser.zero_grad()
        self.fabric.backward(output.loss)
        if recipe.clip > 0:
            self.fabric.clip_gradients(self.step, self.optimiser, max_norm=recipe.clip, error_if_nonfinite=False)
        self.optimiser.step()
        for name, value in {"loss": output.loss.detach(), **output.terms}.items():
            self.terms[name].append(value)
        self.steps_done += 1

    def _count_time(self) -> None:
        now = time.monotonic()
        self.seconds += now - self._began
        self._began = now

    def resume(self) -> None:
        """Go on from the last checkpoint, if there is one."""
        path = self.store.checkpoints / "last.pt"
        if path.exists():
            state = load_checkpoint(path)
            if not set(state) >= _STATE:
                raise WorkFailed(f"checkpoint {path} is not one of ours: it holds {sorted(map(str, state))}")
            processes = len(state["objective"])
            require(
                processes == self.fabric.world_size,
                f"run {self.store.path} must be resumed on as many processes as it was begun on, {processes}, got {self.fabric.world_size}",
            )
            self.model.load_state_dict(state["model"])
            self.optimiser.load_state_dict(state["optimiser"])
            self.objective.load_state_dict(state["objective"][self.fabric.global_rank])
            self.epoch, self.steps_done, self.seconds = state["epoch"], state["steps_done"], state["seconds"]
            self.terms.update({name: list(values.to(self.fabric.device)) for name, values in state["terms"].items()})
            self.best = state["best"]

    def _save(self) -> None:
        self._count_time()
        objective = _gather(self.fabric, self.objective.state_dict())
        if self.fabric.is_global_zero:
            state = {
                "model": self.model.state_dict(),
                "optimiser": self.optimiser.state_dict(),
                "objective": objective,
                "epoch": self.epoch,
                "steps_done": self.steps_done,
                "terms": {name: torch.stack(values).cpu() for name, values in self.terms.items()},
                "seconds": self.seconds,
                "best": self.best,
            }
            save_checkpoint(self.store.checkpoints / "last.pt", state)
        self.fabric.barrier()
        self._saved = time.monotonic()

    def _improves(self, val: Mapping[str, Any]) -> bool:
        rule = self.run.selection
        if rule == "last" or not self.best:
            return True
        best = self.best["val"][rule]
        return val[rule] > best if rule == "accuracy" else val[rule] < best

    def finish(self) -> None:
        """Store the logits of the selected epoch, and what follows from them."""
        self.model.load_state_dict(load_checkpoint(self.store.checkpoints / "best.pt")["model"])
        view, test = self.dataset.view, self.dataset.test
        for name, split in (("val", self.dataset.val), ("test", test)):
            scores = Scores(predict(self.fabric, self.model, split, view, workers=self.workers), split.y)
            if self.fabric.is_global_zero:
                scores.write(self.store.predictions_path(name), index=split.source.numpy())
        logits, lam = predict_mixed(self.fabric, self.model, test, view, self.run.seed, workers=self.workers)
        if self.fabric.is_global_zero:
            write_npz(self.store.predictions_path("mixed"), logits=logits.numpy(), lam=lam.numpy())
            result = summarise(*(Scores.read(self.store.predictions_path(name)) for name in ("val", "test")))
            selection = {"rule": self.run.selection, "epoch": self.best["epoch"]}
            head = {"id": self.run.id, "state": "finished", "protocol": self.run.data.protocol, "selection": selection}
            write_json(self.store.path / "result.json", {**head, **result, "seconds": self.seconds})


def _gather(fabric: Fabric, state: dict[str, Any]) -> list[dict[str, Any]]:
    """The objective of every process: each has a random stream of its own."""
    states = [state] * fabric.world_size
    if fabric.world_size > 1:
        torch.distributed.all_gather_object(states, state)
    return states
