"""The training loop: epochs, their steps, and a validation after each. It knows no method, data set or network by name."""

import dataclasses
import math
import time
from typing import Any

import torch

from rankmixup import random
from rankmixup.data import Dataset, steps_per_epoch, training_batches
from rankmixup.data.batches import epoch_size
from rankmixup.errors import WorkFailed
from rankmixup.evaluation import all_metrics
from rankmixup.methods.dials import confidence_gap
from rankmixup.runs.checkpoint import CheckpointInterval
from rankmixup.runs.run import improves
from rankmixup.training.diagnostics import ranking_diagnostics
from rankmixup.training.optimisation import learning_rate, update
from rankmixup.training.predict import Predictor
from rankmixup.training.processes import gather, maximum
from rankmixup.training.progress import Watcher
from rankmixup.training.resume import KEPT, TrainingState, model_state, save_checkpoint
from rankmixup.training.signals import Signals, interrupted
from rankmixup.types import Batch

_STEPS_BETWEEN_CHECKS = 10
"""With several processes or a GPU, which a check makes wait."""


class TrainingLoop:
    """One run on its devices, trained from `state` to its last epoch."""

    def __init__(
        self, state: TrainingState, dataset: Dataset, watcher: Watcher, signals: Signals, interval: CheckpointInterval, workers: int | None
    ):
        fabric, run = state.fabric, state.run
        self.state, self.fabric, self.run = state, fabric, run
        self.watcher, self.signals, self.interval = watcher, signals, interval
        self.predictor = Predictor(fabric, state.model, dataset.view, workers)
        self.dataset = dataclasses.replace(dataset, train=dataset.train.to(fabric.device))
        self.samples = epoch_size(dataset, run.data.sampling)
        self.steps = steps_per_epoch(dataset, run.optimisation.batch_size, sampling=run.data.sampling, world_size=fabric.world_size)
        self._checked = 0
        self._check_after = 1 if fabric.world_size == 1 and fabric.device.type == "cpu" else _STEPS_BETWEEN_CHECKS

    def train_epochs(self) -> None:
        """Train all epochs that are left."""
        self.watcher.start(self.run, self.state.epoch, self.steps)
        try:
            while self.state.epoch < self.run.optimisation.epochs:
                self.train_epoch()
        finally:
            self.watcher.stop()

    def train_epoch(self) -> None:
        """What is left of a pass over the training set, and its validation."""
        fabric, run, state = self.fabric, self.run, self.state
        state.began = time.monotonic()
        state.objective.epoch = state.epoch
        state.train_mode()
        self._checked = state.steps_done
        order: dict[str, Any] = {"seed": run.seed, "epoch": state.epoch, "sampling": run.data.sampling, "start": state.steps_done}
        batches = training_batches(self.dataset, run.optimisation.batch_size, **order, **self.predictor.share)
        # Dropout draws from torch's global generators. A process that has no state of them begins a stream of its own.
        names = (state.epoch, fabric.global_rank, *([state.steps_done] if state.steps_done else []))
        with random.global_seed(run.seed, "epoch", *names):
            if state.generators is not None:
                random.set_global_state(state.generators, fabric.device)
                state.generators = None
            for batch in batches:
                self.train_step(batch)
                save = self.interval.after_step(state.position)
                if state.steps_done == self.steps or save or state.steps_done - self._checked >= self._check_after:
                    self.check(save=save and state.steps_done < self.steps)
        self.validate()
        self.check(save=self.interval.after_step(state.position) or state.epoch == run.optimisation.epochs)

    def train_step(self, batch: Batch) -> None:
        """One update of the weights."""
        state, optimisation = self.state, self.run.optimisation
        lr = learning_rate(optimisation, state.epoch, state.steps_done, self.steps)
        for group in state.optimiser.param_groups:
            group["lr"] = lr * group.get("scale", 1.0)
        total = min(optimisation.batch_size, self.samples - state.steps_done * optimisation.batch_size)
        for name, value in update(self.fabric, state.step, state.optimiser, batch, total, optimisation).items():
            state.terms[name].append(value)
        state.steps_done += 1
        state.position += 1

    def validate(self) -> None:
        """End the epoch: metrics of the validation split decide whether its weights are the best so far."""
        fabric, run, dataset, state = self.fabric, self.run, self.dataset, self.state
        own = {name: torch.stack(values).mean().item() for name, values in state.terms.items()}
        parts = gather(fabric, own)
        train = {name: sum(part[name] for part in parts) / len(parts) for name in own}
        logits = self.predictor.predict(dataset.val)
        if not math.isfinite(logits.sum().item()):
            raise WorkFailed(f"validation logits of {run.method.name} must stay finite, got others in epoch {state.epoch + 1}; {KEPT}")
        val = all_metrics(logits, dataset.val.y)
        dial, objective = state.objective.dials, state.objective
        ranking = ranking_diagnostics(self.predictor, dataset.val, logits, objective.active, run.seed)
        lr, gap = max(group["lr"] for group in state.optimiser.param_groups), None
        if dial:
            tuning = dataset.tuning
            tuned_on = logits if tuning is None else self.predictor.predict(tuning), (tuning or dataset.val).y
            gap = confidence_gap(*tuned_on)
            objective.tune(*tuned_on, lr=lr)
        state.epoch, state.steps_done, self._checked = state.epoch + 1, 0, 0
        state.terms.clear()
        state.count_time()
        if improves(val, state.best.get("val"), run.selection):
            weights = {name: value.clone() for name, value in model_state(state.model).items()}
            state.best = {"epoch": state.epoch, "val": val, "model": weights, "dial": dial}
        if state.epoch == run.optimisation.epochs and fabric.is_global_zero and (trouble := objective.dial_trouble(state.best.get("dial"))):
            self.watcher.warn(trouble)
        record = {"epoch": state.epoch, "train": train, "val": val, "ranking": ranking, "lr": lr, "seconds": state.seconds}
        self.watcher.epoch({**record, **({"dial": dial, "gap": gap} if dial else {})})

    def check(self, *, save: bool) -> None:
        """Stop if the loss is not finite or a signal was received, save when it is time to; all processes do the same."""
        state, not_finite = self.state, self._not_finite()
        # The clock of the first process counts for all.
        save |= self.fabric.is_global_zero and self.interval.after_time(time.monotonic() - state.saved)
        stop, due, failed = maximum(self.fabric, [self.signals.received, int(save), int(not_finite is not None)])
        if failed:
            raise WorkFailed(next(sentence for sentence in gather(self.fabric, not_finite) if sentence is not None))
        if stop or due:
            save_checkpoint(state)
        if stop:
            raise interrupted(self.fabric, stop, state.store, state.where)

    def _not_finite(self) -> str | None:
        """A sentence on the first value of the steps since the last check that is not finite."""
        state, first = self.state, self._checked
        self._checked = state.steps_done
        if first == state.steps_done:
            return None
        recent = torch.stack([torch.stack(values[first:]).float() for values in state.terms.values()]).T.tolist()
        for step, values in enumerate(recent, start=first + 1):
            for name, value in zip(state.terms, values, strict=True):
                if not math.isfinite(value):
                    where = f"epoch {state.epoch + 1}, step {step}"
                    return f"{name} of {self.run.method.name} must stay finite, got {value} in {where}; {KEPT}"
        self.watcher.step(state.epoch, state.steps_done, recent[-1][list(state.terms).index("loss")])
        return None
