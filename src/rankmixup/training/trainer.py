"""One run in the making: what changes while it trains, how it is saved, and what it leaves behind."""

import math
import time
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from rankmixup import methods, random
from rankmixup.data import Dataset, shuffled_batches
from rankmixup.errors import WorkFailed, require
from rankmixup.metrics import all_metrics
from rankmixup.models import build_model
from rankmixup.runs import Scores, StoredRun
from rankmixup.runs.files import write_json, write_npz
from rankmixup.training.checkpoint import load_checkpoint, save_checkpoint
from rankmixup.training.predict import predict, predict_mixed
from rankmixup.training.result import summarise

__all__ = ["Trainer"]


class Trainer:
    """Everything that changes while a run trains."""

    def __init__(self, fabric: Fabric, store: StoredRun, dataset: Dataset):
        run, recipe = store.run, store.run.optimisation
        self.fabric, self.store, self.run, self.dataset = fabric, store, run, dataset
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
        optimiser = torch.optim.SGD(self.model.parameters(), recipe.lr, recipe.momentum, weight_decay=recipe.weight_decay)
        self.step, self.optimiser = fabric.setup(methods.TrainStep(self.model, self.objective), optimiser)
        self.schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, list(recipe.milestones), recipe.decay)
        self.epoch, self.seconds = 0, 0.0
        self.best: dict[str, Any] = {}

    def train_epoch(self) -> dict[str, Any]:
        """One pass over the training set, its validation and its checkpoint; returns the record that went to the log."""
        began, fabric, run = time.monotonic(), self.fabric, self.run
        self.objective.epoch = self.epoch
        self.step.train()
        terms: list[dict[str, Tensor]] = []
        # Dropout and its like draw from torch's global generator: seeded for each epoch, so that a resumed run draws the same.
        with random.global_seed(run.seed, "epoch", self.epoch, fabric.global_rank):
            for batch in shuffled_batches(
                self.dataset.train,
                run.optimisation.batch_size,
                seed=run.seed,
                epoch=self.epoch,
                rank=fabric.global_rank,
                world_size=fabric.world_size,
                device=fabric.device,
            ):
                output = self.step(batch.x, batch.y, batch.index)
                self.optimiser.zero_grad()
                fabric.backward(output.loss)
                if run.optimisation.clip > 0:
                    fabric.clip_gradients(self.step, self.optimiser, max_norm=run.optimisation.clip, error_if_nonfinite=False)
                self.optimiser.step()
                terms.append({"loss": output.loss.detach(), **output.terms})
        self.schedule.step()
        self.epoch += 1
        figures = {name: torch.stack([term[name] for term in terms]).mean().item() for name in terms[0]}
        logits = predict(fabric, self.model, self.dataset.val.x)
        # Before anything is saved: the checkpoint before this epoch is still good.
        for name, value in {**figures, "validation logits": logits.sum().item()}.items():
            if not math.isfinite(value):
                raise WorkFailed(f"{name} of {run.method.name} must stay finite, got {value} in epoch {self.epoch}; try a smaller lr")
        val = all_metrics(logits, self.dataset.val.y, from_logits=True)
        self.seconds += time.monotonic() - began
        record = {"epoch": self.epoch, "train": figures, "val": val, "seconds": self.seconds}
        self._save(record)
        return record

    def resume(self) -> None:
        """Go on from the last checkpoint, if there is one."""
        path = self.store.checkpoints / "last.pt"
        if path.exists():
            state = load_checkpoint(path)
            if not {"model", "optimiser", "schedule", "objective", "epoch", "seconds", "best"} <= set(state):
                raise WorkFailed(f"checkpoint {path} is not one of ours: it holds {sorted(map(str, state))}")
            processes = len(state["objective"])
            require(
                processes == self.fabric.world_size,
                f"run {self.store.path} must be resumed on as many processes as it was begun on, {processes}, got {self.fabric.world_size}",
            )
            self.model.load_state_dict(state["model"])
            self.optimiser.load_state_dict(state["optimiser"])
            self.schedule.load_state_dict(state["schedule"])
            self.objective.load_state_dict(state["objective"][self.fabric.global_rank])
            self.epoch, self.seconds, self.best = state["epoch"], state["seconds"], state["best"]

    def _save(self, record: dict[str, Any]) -> None:
        objective = _gather(self.fabric, self.objective.state_dict())
        if self._improves(record["val"]):
            self.best = {"epoch": self.epoch, "val": record["val"]}
            if self.fabric.is_global_zero:
                save_checkpoint(self.store.checkpoints / "best.pt", {"model": self.model.state_dict(), **self.best})
        if self.fabric.is_global_zero:
            self.store.log(record)
            state = {"model": self.model.state_dict(), "optimiser": self.optimiser.state_dict(), "schedule": self.schedule.state_dict()}
            figures = {"objective": objective, "epoch": self.epoch, "seconds": self.seconds, "best": self.best}
            save_checkpoint(self.store.checkpoints / "last.pt", state | figures)
        self.fabric.barrier()

    def _improves(self, val: dict[str, float]) -> bool:
        rule = self.run.selection
        if rule == "last" or not self.best:
            return True
        best = self.best["val"][rule]
        return val[rule] > best if rule == "accuracy" else val[rule] < best

    def finish(self) -> None:
        """Store the logits of the selected epoch, and what follows from them."""
        self.model.load_state_dict(load_checkpoint(self.store.checkpoints / "best.pt")["model"])
        for name, split in (("val", self.dataset.val), ("test", self.dataset.test)):
            scores = Scores(predict(self.fabric, self.model, split.x), split.y)
            if self.fabric.is_global_zero:
                scores.write(self.store.predictions_path(name), index=split.source.numpy())
        logits, lam = predict_mixed(self.fabric, self.model, self.dataset.test.x, self.dataset.test.y, self.run.seed)
        if self.fabric.is_global_zero:
            write_npz(self.store.predictions_path("mixed"), logits=logits.numpy(), lam=lam.numpy())
            result = summarise(*(Scores.read(self.store.predictions_path(name)) for name in ("val", "test")))
            selection = {"rule": self.run.selection, "epoch": self.best["epoch"]}
            head = {"id": self.run.id, "state": "finished", "selection": selection}
            write_json(self.store.path / "result.json", {**head, **result, "seconds": self.seconds})


def _gather(fabric: Fabric, state: dict[str, Any]) -> list[dict[str, Any]]:
    """The objective of every process: each has a random stream of its own."""
    states = [state] * fabric.world_size
    if fabric.world_size > 1:
        torch.distributed.all_gather_object(states, state)
    return states
