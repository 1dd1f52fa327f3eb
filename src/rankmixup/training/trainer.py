"""One run in the making: what changes while it trains, how it is saved, and what it leaves behind."""

import dataclasses
import math
import signal
import time
from collections import defaultdict
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from rankmixup import methods, random
from rankmixup.data import Dataset, steps_per_epoch, training_batches
from rankmixup.data.order import epoch_size
from rankmixup.errors import Interrupted, WorkFailed
from rankmixup.evaluation import Scores, all_metrics
from rankmixup.files import write_json
from rankmixup.models import build_model
from rankmixup.runs import StoredRun
from rankmixup.training.checkpoint import Checkpoints, load_best
from rankmixup.training.diagnostics import ranking_diagnostics
from rankmixup.training.every import Every
from rankmixup.training.fabric import set_up
from rankmixup.training.optimisation import learning_rate
from rankmixup.training.predict import predict, store_predictions
from rankmixup.training.processes import agree, ask_first, gather
from rankmixup.training.progress import Watcher
from rankmixup.training.result import improves, summarise
from rankmixup.training.signals import Signals, requeue
from rankmixup.training.state import PROGRESS, check_progress, load_model_state, load_training_state, model_state, training_state
from rankmixup.training.update import update
from rankmixup.types import Batch

__all__ = ["Trainer"]

_LOOK_UP = 10
"""Steps after which processes agree on going on, and a GPU is asked whether the loss is still finite: both make it wait."""


class Trainer:
    """Everything that changes while a run trains."""

    def __init__(
        self,
        fabric: Fabric,
        store: StoredRun,
        dataset: Dataset,
        *,
        every: Every,
        signals: Signals,
        workers: int | None = None,
        compile: bool = False,  # noqa: A002 - the name of the flag, and of torch's function
    ):
        run, recipe = store.run, store.run.optimisation
        self.fabric, self.store, self.run, self.workers, self.every, self.signals = fabric, store, run, workers, every, signals
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
        self.step, self.optimiser = set_up(fabric, self.model, self.objective, recipe, compile=compile)
        self.samples = epoch_size(dataset, run.data.sampling)
        self.steps = steps_per_epoch(dataset, recipe.batch_size, sampling=run.data.sampling, world_size=fabric.world_size)
        self.checkpoints = Checkpoints(store.checkpoints, run.id)
        self.epoch, self.steps_done, self.position, self.seconds = 0, 0, 0, 0.0
        self.terms: dict[str, list[Tensor]] = defaultdict(list)
        self.best: dict[str, Any] = {}
        self._generators: list[Tensor] | None = None
        self._looked_up = 0
        self._look_up_after = 1 if fabric.world_size == 1 and fabric.device.type == "cpu" else _LOOK_UP
        self._began = self._saved = time.monotonic()

    def train_epoch(self, watcher: Watcher) -> None:
        """What is left of a pass over the training set, and its validation; saved if it is time to."""
        fabric, run = self.fabric, self.run
        self._began = time.monotonic()
        self.objective.epoch = self.epoch
        self.step.train()
        self._looked_up = self.steps_done
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
        # Dropout and its like draw from torch's global generators. A process that has no state of them begins a stream of its own.
        names = (self.epoch, fabric.global_rank, *([self.steps_done] if self.steps_done else []))
        with random.global_seed(run.seed, "epoch", *names):
            if self._generators is not None:
                random.set_global_state(self._generators, fabric.device)
                self._generators = None
            for batch in batches:
                self._train_step(batch)
                save = self.every.after_step(self.position)
                if self.steps_done == self.steps or save or self.steps_done - self._looked_up >= self._look_up_after:
                    self._look_up(watcher, save=save and self.steps_done < self.steps)
        self._validate(watcher)
        self._look_up(watcher, save=self.every.after_step(self.position) or self.epoch == run.optimisation.epochs)

    def _train_step(self, batch: Batch) -> None:
        recipe = self.run.optimisation
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(recipe, self.epoch, self.steps_done, self.steps)
        total = min(recipe.batch_size, self.samples - self.steps_done * recipe.batch_size)
        for name, value in update(self.fabric, self.step, self.optimiser, batch, total, recipe).items():
            self.terms[name].append(value)
        self.steps_done += 1
        self.position += 1

    def _validate(self, watcher: Watcher) -> None:
        fabric, run, dataset = self.fabric, self.run, self.dataset
        own = {name: torch.stack(values).mean().item() for name, values in self.terms.items()}
        parts = gather(fabric, own)
        figures = {name: sum(part[name] for part in parts) / len(parts) for name in own}
        logits = predict(fabric, self.model, dataset.val, dataset.view, workers=self.workers)
        if not math.isfinite(logits.sum().item()):
            raise WorkFailed(f"validation logits of {run.method.name} must stay finite, got others in epoch {self.epoch + 1}; {_KEPT}")
        val = all_metrics(logits, dataset.val.y, from_logits=True)
        ranking = ranking_diagnostics(fabric, self.model, dataset, logits, run.method, run.seed, workers=self.workers)
        lr = self.optimiser.param_groups[0]["lr"]
        self.epoch, self.steps_done, self._looked_up = self.epoch + 1, 0, 0
        self.terms.clear()
        self._count_time()
        if improves(val, self.best.get("val"), run.selection):
            self.best = {"epoch": self.epoch, "val": val, "model": {name: value.clone() for name, value in model_state(self.model).items()}}
        watcher.epoch({"epoch": self.epoch, "train": figures, "val": val, "ranking": ranking, "lr": lr, "seconds": self.seconds})

    def _look_up(self, watcher: Watcher, *, save: bool) -> None:
        """Stop if the loss is no number or somebody asks to; save if it is time to. All processes do the same."""
        unfit = self._unfit(watcher)
        # One process's clock is everybody's.
        save |= self.fabric.is_global_zero and self.every.after_time(time.monotonic() - self._saved)
        stop, due, failed = agree(self.fabric, [self.signals.received, int(save), int(unfit is not None)])
        if failed:
            raise WorkFailed(next(sentence for sentence in gather(self.fabric, unfit) if sentence is not None))
        if stop or due:
            self._save()
        if stop:
            where = f"epoch {self.epoch + 1}, step {self.steps_done}" if self.steps_done else f"epoch {self.epoch}"
            sentence = f"run {self.store.path} was stopped by {signal.Signals(stop).name} and saved after {where}; "
            sentence += f"continue it with 'rankmixup train --resume {self.store.path}'"
            requeued = ask_first(self.fabric, lambda: requeue(stop))
            raise Interrupted(f"{sentence}; {requeued}" if requeued else sentence, 128 + stop)

    def _unfit(self, watcher: Watcher) -> str | None:
        """What is not finite in the steps since this was last asked."""
        first, self._looked_up = self._looked_up, self.steps_done
        if first == self.steps_done:
            return None
        recent = torch.stack([torch.stack(values[first:]).float() for values in self.terms.values()]).T.tolist()
        for step, values in enumerate(recent, start=first + 1):
            for name, value in zip(self.terms, values, strict=True):
                if not math.isfinite(value):
                    where = f"epoch {self.epoch + 1}, step {step}"
                    return f"{name} of {self.run.method.name} must stay finite, got {value} in {where}; {_KEPT}"
        watcher.step(self.epoch, self.steps_done, recent[-1][list(self.terms).index("loss")])
        return None

    def _count_time(self) -> None:
        now = time.monotonic()
        self.seconds += now - self._began
        self._began = now

    def resume(self, watcher: Watcher) -> None:
        """Go on from the newest checkpoint that can be read, if there is any."""
        path, complaints = ask_first(self.fabric, self.checkpoints.newest)
        if path is None:
            return
        if complaints and self.fabric.is_global_zero:
            watcher.warn(f"{'; '.join(complaints)}; going on from {path.name}, the one before")
        state = self.checkpoints.load(path)
        try:
            check_progress(state, self.run.optimisation.epochs, self.steps)
            self._restore(state)
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise WorkFailed(f"checkpoint {path} does not fit its run ({type(error).__name__}: {error})") from error
        before, now = len(state["processes"]), self.fabric.world_size
        if before != now and self.fabric.is_global_zero:
            watcher.warn(f"run {self.store.path} goes on with {now} processes instead of {before}: not bit for bit as before")

    def _restore(self, state: dict[str, Any]) -> None:
        load_training_state(self.fabric, self.model, self.optimiser, state)
        self.epoch, self.steps_done, self.position, self.seconds = (state[name] for name in PROGRESS)
        self.best = state["best"]
        processes, rank = state["processes"], self.fabric.global_rank
        known = rank < len(processes)
        own = processes[rank if known else 0]
        self.objective.load_state_dict(own["objective"])
        self.terms.update({name: list(values.to(self.fabric.device)) for name, values in own["terms"].items()})
        if known:
            self._generators = own["generators"]
        else:
            self.objective.draw_from(random.stream(self.run.seed, "mixing", rank, self.epoch, self.steps_done))

    def _save(self) -> None:
        self._count_time()
        own = {
            "objective": {name: value.cpu() for name, value in self.objective.state_dict().items()},
            "generators": random.global_state(self.fabric.device) if self.steps_done else None,
            "terms": {name: torch.stack(values).cpu() for name, values in self.terms.items()},
        }
        state = {
            **training_state(self.fabric, self.model, self.optimiser),
            "processes": gather(self.fabric, own),
            **{name: getattr(self, name) for name in PROGRESS},
        }
        ask_first(self.fabric, lambda: self._write(state))
        self._saved = time.monotonic()

    def _write(self, state: dict[str, Any]) -> None:
        for name, value in state["model"].items():
            if value.is_floating_point() and not value.isfinite().all():
                where = f"epoch {self.epoch + 1}, step {self.steps_done}"
                raise WorkFailed(f"{name} of the network must stay finite, which it is not in {where}; {_KEPT}")
        self.checkpoints.save(self.position, state, self.best)

    def finish(self) -> None:
        """Store the logits of the selected epoch, and what follows from them."""
        load_model_state(self.model, load_best(self.store.checkpoints, self.run.id))
        store_predictions(self.fabric, self.model, self.dataset, self.store, workers=self.workers)
        if self.fabric.is_global_zero:
            result = summarise(*(Scores.read(self.store.predictions_path(name)) for name in ("val", "test")))
            selection = {"rule": self.run.selection, "epoch": self.best["epoch"]}
            head = {"id": self.run.id, "state": "finished", "protocol": self.run.data.protocol, "selection": selection}
            write_json(self.store.path / "result.json", {**head, **result, "seconds": self.seconds})


_KEPT = "the last checkpoint was saved before; try a smaller lr"
