"""Experiments in the making: a table that fills while runs are trained."""

import contextlib
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rankmixup.evaluation.registry import metric_named
from rankmixup.experiments import Cell, Event, Grid
from rankmixup.reports.tables import plain_table
from rankmixup.runs import Run, StoredRun
from rankmixup.runs.records import Metrics


def follow(events: Iterable[Event], console: Console, runs: Path, total: int, grids: Sequence[Grid] = ()) -> list[Event]:
    """Show what happens to `total` tasks until it has happened to all; returns the failures.

    On a terminal this is the table of the experiment that is being filled, otherwise a line for each run.
    """
    progress, failed = Progress(runs, total, grids), []
    live = Live(console=console, get_renderable=progress.render, refresh_per_second=1) if console.is_terminal else None
    with live or contextlib.nullcontext():
        for event in events:
            progress.add(event)
            if event.kind == "failed":
                failed.append(event)
            if live is None and event.kind != "started":
                console.print(progress.line(event), highlight=False, markup=False, soft_wrap=True)
    return failed


class Progress:
    """How far runs have come."""

    def __init__(self, runs: Path, total: int, grids: Sequence[Grid]):
        self.runs, self.total = runs, total
        self.grids = [grid for grid in grids if grid.cells]
        self.split = "test" if grids else "validation"  # a sweep selects, which test samples must have no part in
        self.events: Counter[str] = Counter()
        self.working: set[Run] = set()
        self.results: dict[Run, Metrics] = {}
        self._began = time.monotonic()

    def add(self, event: Event) -> None:
        """Take in what happened."""
        run = event.task.run
        self.events[event.kind] += 1
        (self.working.add if event.kind == "started" else self.working.discard)(run)
        if event.kind == "finished":
            self.results[run] = StoredRun.locate(self.runs, run).result().metrics["test" if self.split == "test" else "val"]

    def line(self, event: Event) -> str:
        """What happened, as a line."""
        run = event.task.run
        said = {
            "failed": f"failed, {event.reason}",
            "lost": "its process was lost; it is tried again",
            "waiting": "another command is at it",
        }
        if event.kind == "finished":
            found = self.results[run]
            said["finished"] = f"{self.split} accuracy {100 * found['accuracy']:.1f} %, ECE {100 * found['ece']:.1f} %"
        name = f"{run.method.name} on {run.data.name}, seed {run.seed}, run {run.id}"
        return f"[{self._ended}/{self.total}] {name}: {said[event.kind]}"

    @property
    def _ended(self) -> int:
        return self.events["finished"] + self.events["failed"]

    def render(self) -> RenderableType:
        """The table of the first experiment that has runs to come, or of the last, under a line about all of them."""
        minutes = (time.monotonic() - self._began) / 60
        line = f"{self._ended} of {self.total} runs, {len(self.working)} in training, {self.events['failed']} failed, {minutes:.0f} min"
        unfilled = (grid for grid in self.grids if any(run not in self.results for cell in grid.cells.values() for run in cell.runs))
        grid = next(unfilled, self.grids[-1] if self.grids else None)
        return Text(line) if grid is None else Group(Text(line), self._table(grid))

    def _table(self, grid: Grid) -> Table:
        """One grid: the mean over the seeds that are there, and how many are."""
        filled = {key: label for key, label in grid.columns.items() if any(key == column for _, column in grid.cells)}
        table = plain_table("method", *filled.values())
        table.title, table.title_justify = f"{grid.title}: {metric_named(grid.metric).title} in %", "left"
        for row, label in grid.rows.items():
            table.add_row(label, *(self._cell(grid.cells[row, column], grid.metric) for column in filled))
        return table

    def _cell(self, cell: Cell, metric: str) -> str:
        values = [100 * self.results[run][metric] for run in cell.runs if run in self.results]
        mean = f"{sum(values) / len(values):.2f}" if values else "..." if self.working.intersection(cell.runs) else ""
        return f"{mean} ({len(values)}/{len(cell.runs)})" if len(values) < len(cell.runs) else mean
