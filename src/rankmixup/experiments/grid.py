"""A grid of runs: what is to be trained, and the cells of a table that its runs fill."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rankmixup.runs import Run, StoredRun


@dataclass(frozen=True)
class Cell:
    """The runs of a row in a column, one for each seed."""

    runs: tuple[Run, ...]
    unknown: str = ""
    """Data set of unknown samples whose scores it takes."""


@dataclass(frozen=True)
class Grid:
    """Cells with the labels of their rows and columns by key, as a table shows them while it fills."""

    title: str
    metric: str
    rows: Mapping[str, str]
    columns: Mapping[str, str]
    cells: Mapping[tuple[str, str], Cell]
    """By key of row and column."""


@dataclass(frozen=True)
class Task:
    """A run that is to be trained, and the unknown samples that are then shown to it."""

    run: Run
    unknown: tuple[str, ...] = ()

    def done(self, runs: Path) -> bool:
        """Whether everything that it asks for is stored below `runs`; raises `InvalidInput` for a damaged run."""
        stored = StoredRun.locate(runs, self.run)
        if not stored.finished:
            return False
        stored.result()  # raises if it is damaged
        return all(stored.predictions_path(f"ood-{unknown_set_name(each)}").exists() for each in self.unknown)


def tasks_for(parts: Iterable[Mapping[tuple[str, str], Cell]]) -> list[Task]:
    """Every run of the cells of several experiments once, those of low seeds first within each.

    A run that several cells share is shown the unknown samples of all of them.
    """
    unknown: dict[Run, dict[str, None]] = {}
    for cells in parts:
        for seed in range(max((len(cell.runs) for cell in cells.values()), default=0)):
            for cell in cells.values():
                unknown.setdefault(cell.runs[seed], {}).update({cell.unknown: None} if cell.unknown else {})
    return [Task(run, tuple(sets)) for run, sets in unknown.items()]


def unknown_set_name(source: str) -> str:
    """The name under which scores of a data set of unknown samples are stored.

    >>> unknown_set_name("svhn"), unknown_set_name("folder:of/leaves")
    ('svhn', 'leaves')
    """
    kind, colon, path = source.partition(":")
    return Path(path).name if colon else kind
