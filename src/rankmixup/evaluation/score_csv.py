"""Scores from csv files; `csv_columns` decides which columns hold scores and labels.

Labels are class names, or numbers: those in the names of the columns (`logit_1`, `logit_2`, ...), or else positions counted from 0.
"""

import csv
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from rankmixup.errors import InvalidInput, require
from rankmixup.evaluation.csv_columns import NAME_LABELS, Asked, Layout, by_name, by_number, is_number


@dataclass(frozen=True)
class ScoreFile:
    """Contents of a file."""

    scores: NDArray[Any]
    labels: NDArray[Any] | None
    """Class indices or class names; None if there are none, or if a csv file was read without them."""
    kind: str | None
    """`logits` or `probs`, if the file says so."""
    class_names: tuple[str, ...] | None = None


@contextmanager
def errors_about(path: Path) -> Iterator[None]:
    """Begin errors of the block with the path."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None


def read_csv(path: Path, asked: Asked) -> ScoreFile:
    """Scores, and class indices if labels are asked for."""
    with errors_about(path), path.open(encoding="utf-8-sig", newline="") as file:
        line = file.readline()
        require(bool(line.strip()), "the first line must hold names or numbers, it is empty")
        delimiter = next((sign for sign in ",;\t" if sign in line), ",")
        file.seek(0)
        rows = ([cell.strip() for cell in row] for row in csv.reader(file, delimiter=delimiter) if row)
        first, second = next(rows), next(rows, [])
        named = not all(map(is_number, first))
        layout = by_name(first, second, asked) if named else None
        file.seek(0)
        # Tables without names are often saved with a first row 0, 1, 2, ..., which is not data.
        if named or first == [str(column) for column in range(len(first))]:
            next(csv.reader(file, delimiter=delimiter))
        table, texts = _table(file, delimiter, len(first), layout)
        layout = layout or by_number(table, asked)
        labels = _labels(texts or table[:, layout.label], layout) if asked.labelled else None
        return ScoreFile(table[:, layout.scores], labels, layout.kind, layout.class_names)


def _table(file: TextIO, delimiter: str, width: int, layout: Layout | None) -> tuple[NDArray[np.float64], list[str]]:
    """All columns, with 0 in those without scores; and the text of the label column if the header names one."""
    texts: list[str] = []

    def keep(cell: str) -> float:
        texts.append(cell.strip())
        return 0.0

    # Unused columns are parsed too, so that a row with too many cells is detected.
    unused = set(range(width)).difference(layout.scores) if layout else ()
    converters: dict[int | str, Callable[[str], float]] = dict.fromkeys(unused, lambda _: 0.0)
    if layout and layout.label is not None:
        converters[layout.label] = keep
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty table is refused below
        try:
            table = np.loadtxt(file, delimiter=delimiter, ndmin=2, quotechar='"', comments=None, converters=converters or None)
        except ValueError as error:
            raise InvalidInput(f"every row must hold as many numbers; {str(error).split(';')[0].rstrip('.')[:200]}") from error
    require(len(table) > 0, "there must be at least one row of numbers, got none")
    require(table.shape[1] == width, f"the first row must have as many cells as the others, {table.shape[1]}, got {width}")
    return table, texts


def _labels(values: list[str] | NDArray[np.float64], layout: Layout) -> NDArray[np.int64]:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except ValueError:
        return class_indices(list(values), layout.class_names)
    first, last = layout.first_label, layout.first_label + len(layout.scores) - 1
    right = (numbers == np.round(numbers)) & (numbers >= first) & (numbers <= last)
    row = int(right.argmin())
    wrong = f"labels must be whole class indices in {first}..{last}, row {row} has {numbers[row]:.17g}"
    require(bool(right.all()), f"{wrong}; {NAME_LABELS}")
    return numbers.astype(np.int64) - first


def class_indices(labels: Sequence[str], class_names: Sequence[str] | None) -> NDArray[np.int64]:
    """The position of each label in the class names."""
    if class_names is None:
        raise InvalidInput(f"labels must be class indices if classes have no names, got {labels[0][:40]!r}")
    places = {name: place for place, name in enumerate(class_names)}
    for row, label in enumerate(labels):
        require(label in places, f"labels must be class names, row {row} has {label[:40]!r}")
    return np.array([places[label] for label in labels], dtype=np.int64)
