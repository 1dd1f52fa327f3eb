"""What a person sees while a run trains: a bar in a terminal, plain lines elsewhere."""

import time
import warnings
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from rankmixup.runs import Run

__all__ = ["Silent", "Watcher"]


class Silent:
    """Shows nothing but warnings, and those as Python does."""

    def warn(self, message: str) -> None:
        """Something is wrong, but not so that training is useless."""
        warnings.warn(message, UserWarning, stacklevel=2)

    def start(self, run: Run, done: int) -> None:
        """Training begins behind `done` epochs."""

    def epoch(self, record: Mapping[str, Any]) -> None:
        """An epoch is over."""

    def stop(self) -> None:
        """Training is over, or has failed."""


class Watcher(Silent):
    """Epoch, loss terms, validation accuracy and ECE, time left."""

    def __init__(self, console: Console | None = None):
        self.console = console or Console(stderr=True)
        self._bar: Progress | None = None

    def warn(self, message: str) -> None:
        self.console.print(f"warning: {message}", highlight=False, soft_wrap=True, markup=False)

    def start(self, run: Run, done: int) -> None:
        self._title = f"{run.method.name} on {run.data.name}, seed {run.seed}"
        self._epochs, self._done, self._began = run.optimisation.epochs, done, time.monotonic()
        if not self.console.is_terminal:
            self.console.print(f"{self._title}: run {run.id}" + (f", resumed after epoch {done}" if done else ""), highlight=False)
            return
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, TextColumn("{task.fields[figures]}"), console=self.console)
        self._task = self._bar.add_task(self._title, total=self._epochs, completed=done, figures="")
        self._bar.start()

    def epoch(self, record: Mapping[str, Any]) -> None:
        terms = "  ".join(f"{name} {value:.3f}" for name, value in record["train"].items())
        figures = f"{terms}  val acc {100 * record['val']['accuracy']:.1f} %  ECE {100 * record['val']['ece']:.1f} %"
        epoch = record["epoch"]
        if self._bar is not None:
            self._bar.update(self._task, completed=epoch, figures=figures)
        # A log file wants a line now and then, not one for each of 200 epochs.
        elif epoch == self._epochs or epoch % max(1, self._epochs // 10) == 0:
            left = (time.monotonic() - self._began) / (epoch - self._done) * (self._epochs - epoch)
            self.console.print(
                f"{self._title}: epoch {epoch}/{self._epochs}  {figures}  {left:.0f} s left", highlight=False, soft_wrap=True
            )

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
