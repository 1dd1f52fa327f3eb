"""Where the numbers of each epoch go: log.jsonl and metrics.csv always, and the trackers that are asked for.

Trackers are lightning-fabric's loggers or have their interface. Each writes below the directory of the run and needs no network;
`WANDB_MODE` and `MLFLOW_TRACKING_URI` send them elsewhere, as their own documents say.
"""

import csv
import dataclasses
import importlib.util
import io
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from lightning_fabric.loggers.logger import Logger
from lightning_fabric.loggers.tensorboard import TensorBoardLogger

from rankmixup.config import flatten
from rankmixup.errors import InvalidInput, unknown_name
from rankmixup.files import write_atomic
from rankmixup.runs import Run, StoredRun
from rankmixup.runs.records import EpochRecord
from rankmixup.training.advice import advice
from rankmixup.training.progress import Watcher

TRACKERS = ("tensorboard", "wandb", "mlflow")
"""Names of trackers, and of the packages and extras that they need."""


def check_loggers(loggers: Sequence[str | Logger]) -> None:
    """Refuse, in one sentence, names of trackers that are unknown or whose package is not installed."""
    for name in loggers:
        if isinstance(name, Logger):
            continue
        if name not in TRACKERS:
            raise unknown_name("logger", name, TRACKERS)
        if importlib.util.find_spec(name) is None:
            raise InvalidInput(f"logger {name!r} needs the package {name}, which is not installed: pip install 'rankmixup[{name}]'")


def open_loggers(loggers: Sequence[str | Logger], store: StoredRun, epochs_done: int) -> list[Logger]:
    """Loggers that go on behind `epochs_done` epochs, with the configuration of the run in them."""
    opened = [_open(each, store, epochs_done) if isinstance(each, str) else each for each in loggers]
    for logger in opened:
        logger.log_hyperparams(store.run.to_dict())
    return opened


def _open(name: str, store: StoredRun, epochs_done: int) -> Logger:
    if name == "tensorboard":
        # Epochs that a resumed run trains again replace what was there.
        return TensorBoardLogger(store.path / name, name="", version="", default_hp_metric=False, purge_step=epochs_done + 1)
    return (_Wandb if name == "wandb" else _MLflow)(store)


def numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a record of log.jsonl under names like `val/ece`.

    >>> numbers({"epoch": 1, "val": {"ece": 0.1, "auroc_correct": None}, "warnings": ["..."]})
    {'epoch': 1, 'val/ece': 0.1}
    """
    return {name: value for name, value in flatten(record, "/").items() if isinstance(value, int | float)}


class EpochLogger(Watcher):
    """Writes log.jsonl and metrics.csv, informs loggers and another watcher, and warns if the numbers suggest a wrong setting."""

    def __init__(self, store: StoredRun, watcher: Watcher, loggers: Sequence[str | Logger] = ()):
        self._store, self._watcher, self._requested = store, watcher, loggers
        self._loggers: list[Logger] = []
        self._warnings: list[str] = []

    def warn(self, message: str) -> None:
        """Shown at once, and recorded with the current epoch."""
        self._warnings.append(message)
        self._watcher.warn(message)

    def note(self, message: str) -> None:
        self._watcher.note(message)

    def splits(self, sizes: str) -> None:
        self._watcher.splits(sizes)

    def start(self, run: Run, epochs_done: int, steps: int) -> None:
        self._run, self._history = run, self._store.history()
        if self._history:
            self._write_csv()
        self._loggers = open_loggers(self._requested, self._store, epochs_done)
        self._watcher.start(run, epochs_done, steps)

    def step(self, epochs_done: int, steps_done: int, loss: float) -> None:
        self._watcher.step(epochs_done, steps_done, loss)

    def epoch(self, record: Mapping[str, Any]) -> None:
        found = EpochRecord.from_dict(dict(record), "the record of an epoch")
        for sentence in advice([*self._history, found], self._run.method):
            self.warn(sentence)
        complete = dataclasses.replace(found, warnings=tuple(self._warnings))
        self._history.append(complete)
        self._warnings = []
        self._store.log(complete)
        self._write_csv()
        for logger in self._loggers:
            logger.log_metrics(numbers(record), step=found.epoch)
        self._watcher.epoch(complete.to_dict())

    def _write_csv(self) -> None:
        """A row for each epoch, a column for each number; empty where an epoch has none."""
        rows = [numbers(record.to_dict()) for record in self._history]
        text = io.StringIO()
        writer = csv.DictWriter(text, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_atomic(self._store.path / "metrics.csv", text.getvalue().encode())

    def stop(self) -> None:
        finished = len(self._history) == self._run.optimisation.epochs
        for logger in self._loggers:
            logger.finalize("success" if finished else "failed")
        self._watcher.stop()


class _Wandb(Logger):
    name, version = "wandb", ""

    def __init__(self, store: StoredRun):
        import wandb

        self._run = wandb.init(
            project="rankmixup",
            id=store.run.id,
            dir=store.path,
            mode=os.environ.get("WANDB_MODE", "offline"),
            resume="allow",
            # Standard output is for results alone.
            settings=wandb.Settings(silent=True, console="off"),
        )

    def log_hyperparams(self, params: dict[str, Any]) -> None:  # type: ignore[override]
        self._run.config.update(params, allow_val_change=True)

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        self._run.log(dict(metrics), step=step)

    def finalize(self, status: str) -> None:
        self._run.finish(exit_code=0 if status == "success" else 1)


class _MLflow(Logger):
    name, version = "mlflow", ""

    def __init__(self, store: StoredRun):
        from mlflow import MlflowClient

        folder = store.path.resolve() / "mlflow"
        folder.mkdir(exist_ok=True)
        self._client = MlflowClient(os.environ.get("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'mlflow.db'}"))
        experiment = self._client.get_experiment_by_name("rankmixup")
        place = experiment.experiment_id if experiment else self._client.create_experiment("rankmixup", folder.as_uri())
        found = self._client.search_runs([place], f"attributes.run_name = '{store.run.id}'")
        self._id = (found[0] if found else self._client.create_run(place, run_name=store.run.id)).info.run_id

    def log_hyperparams(self, params: dict[str, Any]) -> None:  # type: ignore[override]
        for name, value in flatten(params).items():
            self._client.log_param(self._id, name, value)

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        self._client.log_batch(self._id, metrics=[Metric(name, value, now, step or 0) for name, value in metrics.items()])

    def finalize(self, status: str) -> None:
        self._client.set_terminated(self._id, "FINISHED" if status == "success" else "FAILED")
