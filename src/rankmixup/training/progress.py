"""What a person sees while a run trains: a bar in a terminal, plain lines elsewhere."""

import time
import warnings
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column

from rankmixup.runs import Run

_LINES = 10
"""Lines of a run of many short epochs, where there is no bar: a log file wants one now and then."""
_QUIET = 300.0
"""Seconds after which it wants one anyway."""
_MEASURED = 2.0
"""Seconds of steps that tell how long all of them take; the first step, which is slower, is none of them."""


class Watcher:
    """Is told what happens while a run trains. This one shows nothing but warnings, and those as Python does."""

    def warn(self, message: str) -> None:
        """Something is wrong, but not so that training is useless."""
        warnings.warn(message, UserWarning, stacklevel=2)

    def note(self, message: str) -> None:
        """Something to know about the run, said once."""

    def splits(self, sizes: str) -> None:
        """How many samples each split has, in words, before anything is trained."""

    def start(self, run: Run, epochs_done: int, steps: int) -> None:
        """Training begins behind `epochs_done` epochs of `steps` steps."""

    def step(self, epochs_done: int, steps_done: int, loss: float) -> None:
        """Some steps later, `steps_done` into an epoch; `loss` is that of the last of them."""

    def epoch(self, record: Mapping[str, Any]) -> None:
        """An epoch is over; `record` is its line of log.jsonl."""

    def stop(self) -> None:
        """Training is over, or has failed."""


class ProgressWatcher(Watcher):
    """How long it takes; then epoch, step, time left, loss, and the last validation's accuracy, ECE and Kendall tau."""

    def __init__(self, console: Console | None = None):
        self.console = console or Console(stderr=True)
        self._bar: Progress | None = None

    def warn(self, message: str) -> None:
        self._print(f"warning: {message}")

    def note(self, message: str) -> None:
        self._print(message)

    def splits(self, sizes: str) -> None:
        self._print(sizes)

    def start(self, run: Run, epochs_done: int, steps: int) -> None:
        self._epochs, self._steps, self._validation = run.optimisation.epochs, steps, ""
        self._begun: tuple[int, float] | None = None
        self._started = self._last_line = time.monotonic()
        self._estimated = False
        resumed = f", resumed after epoch {epochs_done}" if epochs_done else ""
        self._print(f"{run.method.name} on {run.data.name}, {run.model}, seed {run.seed}: run {run.id}{resumed}")
        if self.console.is_terminal:
            # The text is cut at the end of the line, not the bar beside it.
            text = TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True))
            self._bar = Progress(BarColumn(bar_width=8), text, console=self.console, expand=True)
            self._task = self._bar.add_task("", total=self._epochs * steps, completed=epochs_done * steps)
            self._bar.start()

    def step(self, epochs_done: int, steps_done: int, loss: float) -> None:
        where, position = f"epoch {epochs_done + 1}/{self._epochs} step {steps_done}/{self._steps}", epochs_done * self._steps + steps_done
        self._show(position, where, f"loss {loss:.3f}", is_due=False)
        self._estimate(position, steps_done)

    def _estimate(self, position: int, steps_done: int) -> None:
        """Say once, within the first epoch, how long all that is left takes."""
        first, began = self._begun or (0, 0.0)
        now, over = time.monotonic(), steps_done == self._steps
        if self._estimated or not (over or (position > first and now - began >= _MEASURED)):
            return
        self._estimated = True
        pace = (now - began) / (position - first) if position > first else (now - self._started) / steps_done
        left = timedelta(seconds=round(pace * (self._epochs * self._steps - position)))
        self._print(f"about {left} for {self._epochs} epochs of {self._steps} steps, {pace:.2g} s each, besides validation")

    def epoch(self, record: Mapping[str, Any]) -> None:
        epoch, val, tau = record["epoch"], record["val"], record["ranking"]["tau"]
        self._validation = f"  val acc {100 * val['accuracy']:.1f} %  ECE {100 * val['ece']:.1f} %"
        if tau is not None:
            self._validation += f"  tau {tau:.2f}"
        terms = "  ".join(f"{name} {value:.3f}" for name, value in {**record["train"], **record.get("dial", {})}.items())
        is_due = epoch == self._epochs or epoch % max(1, self._epochs // _LINES) == 0
        self._show(epoch * self._steps, f"epoch {epoch}/{self._epochs}", terms, is_due=is_due)

    def _show(self, position: int, where: str, terms: str, *, is_due: bool) -> None:
        now = time.monotonic()
        self._begun = self._begun or (position, now)
        first, began = self._begun
        left = ""
        if position > first:  # by the pace since training began or was resumed, perhaps within an epoch
            seconds = (now - began) / (position - first) * (self._epochs * self._steps - position)
            left = f"{timedelta(seconds=round(seconds))} left  "
        text = f"{where}  {left}{terms}{self._validation}"
        if self._bar is not None:
            self._bar.update(self._task, completed=position, description=text)
        elif is_due or now - self._last_line > _QUIET:
            self._print(text)
            self._last_line = now

    def _print(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True, markup=False)

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
