"""What the first process records of every epoch."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from lightning_fabric.loggers.logger import Logger

from rankmixup.runs import Run, StoredRun
from rankmixup.runs.records import EpochRecord
from rankmixup.training.advice import advice
from rankmixup.training.loggers import numbers, open_loggers, write_csv
from rankmixup.training.progress import Watcher


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
        write_csv(self._store.path / "metrics.csv", [record.to_dict() for record in self._history])

    def stop(self) -> None:
        finished = len(self._history) == self._run.optimisation.epochs
        for logger in self._loggers:
            logger.finalize("success" if finished else "failed")
        self._watcher.stop()
