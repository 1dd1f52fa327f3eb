"""What a table or figure of the paper is: rows, columns and the runs behind each cell, at any scale."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rankmixup.data import DataSource
from rankmixup.errors import require, unknown_name
from rankmixup.experiments.grid import Cell, Grid
from rankmixup.methods import Method
from rankmixup.runs import Optimisation, Run, recipe_for, with_field
from rankmixup.runs.run import Selection


@dataclass(frozen=True)
class Row:
    """A method as one row of a table has it."""

    key: str
    """Registry key of the method, followed by /SETTING for each that the row changes; as in the files of published numbers."""
    label: str
    """As the paper calls it."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """What this row changes of the method that the recipe of the data set describes, by dotted name of the field."""

    def method(self, data: DataSource) -> Method:
        """The method for a data set."""
        method = recipe_for(data).build_method(self.key.partition("/")[0])
        for path, value in self.changes.items():
            method = with_field(method, path, value)
        return method


@dataclass(frozen=True)
class Column:
    """A data set and a network of the paper, and the unknown samples that it tells from the data set's own, if any."""

    key: str
    """DATA/NETWORK or DATA/NETWORK/UNKNOWN, with a long tail as DATA-lt-RATIO."""
    label: str
    """As the paper calls it."""
    data: DataSource
    model: str
    unknown: str = ""
    """Data set of unknown samples."""


@dataclass(frozen=True)
class Setting:
    """What stands in a column at one scale."""

    data: DataSource
    model: str
    optimisation: Optimisation | None = None
    """None is the recipe's."""
    selection: Selection = "accuracy"
    """Which epoch is kept."""
    unknown: str = ""
    """Data set of unknown samples, NAME or folder:PATH with a path below the data root."""


@dataclass(frozen=True)
class Scale:
    """How large an experiment is: what stands in each of its columns, and how many seeds there are."""

    key: str
    summary: str
    """One line: what is trained, and on which data."""
    setting: Callable[["Experiment", Column], Setting | None]
    """None for a column that this scale leaves empty."""
    seeds: Callable[["Experiment"], int]
    """Seeds unless the user says otherwise."""


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper."""

    key: str
    title: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    metrics: tuple[str, ...]
    """Keys of what a cell shows."""
    expect: str
    """What the paper finds in it."""
    printed: Mapping[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    """By row and column of a cell that the paper only draws: the table, and its row, that print the same point."""

    def cells(self, scale: Scale, seeds: int | None = None) -> dict[tuple[str, str], Cell]:
        """By key of row and column, those that the scale fills, with seeds 0..`seeds`-1 (by default as many as the scale has)."""
        seeds = scale.seeds(self) if seeds is None else seeds
        require(seeds >= 1, f"seeds must be at least 1, got {seeds}")
        filled = {}
        for column in self.columns:
            setting = scale.setting(self, column)
            if setting is None:
                continue
            for row in self.rows:
                first = Run(row.method(setting.data), setting.data, setting.model, setting.optimisation, selection=setting.selection)
                runs = tuple(dataclasses.replace(first, seed=seed) for seed in range(seeds))
                filled[row.key, column.key] = Cell(runs, setting.unknown)
        return filled

    def grid(self, cells: Mapping[tuple[str, str], Cell]) -> Grid:
        """Its cells as a table that fills while they are trained."""
        metric = next((key for key in self.metrics if key in ("ece", "oe")), "accuracy")
        return Grid(self.key, metric, {row.key: row.label for row in self.rows}, {each.key: each.label for each in self.columns}, cells)

    def printed_in(self, row: str, column: str) -> tuple[str, str]:
        """The table, and its row, where the paper prints the numbers of a cell, if it prints them at all."""
        return self.printed.get((row, column), (self.key, row))

    def part(self, rows: Sequence[str] = (), columns: Sequence[str] = ()) -> "Experiment":
        """The experiment with these rows and columns alone, where any are named."""
        chosen = _chosen(f"row of {self.key}", self.rows, rows)
        return dataclasses.replace(self, rows=chosen, columns=_chosen(f"column of {self.key}", self.columns, columns))


def _chosen(kind: str, entries: tuple[Any, ...], keys: Sequence[str]) -> tuple[Any, ...]:
    known = {entry.key: entry for entry in entries}
    for key in keys:
        if key not in known:
            raise unknown_name(kind, key, known)
    return tuple(known[key] for key in keys) or entries
