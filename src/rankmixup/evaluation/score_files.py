"""Files of scores from anywhere: npz, pt, safetensors and csv. Nothing in them is ever executed.

`csv_columns` decides which columns of a csv file hold scores and labels. Its labels are class names, or numbers: those in the names of the
columns (`logit_1`, `logit_2`, ...), or else positions counted from 0.
"""

import csv
import json
import re
import shlex
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankmixup.errors import InvalidInput, require
from rankmixup.evaluation.csv_columns import NAME_LABELS, Asked, Layout, answers, by_name, by_number, example, is_number, listed
from rankmixup.files import read_npz, read_pt, readable, require_fits

KINDS = ("logits", "probs")
"""Kinds of scores; arrays with one of these names need no other declaration."""


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


def read_score_file(path: Path, asked: Asked) -> ScoreFile:
    """Scores, labels if there are any, and class names if there are any."""
    kind = asked.kind
    require(kind is None or kind in KINDS, f"kind must be 'logits' or 'probs', got {kind!r}")
    ending = path.suffix.lower()
    accepted = f"{path} must be an npz file, or a pt, pth, safetensors or csv file"
    require(ending in (".csv", *_READERS), f"{accepted}, got {ending or 'no ending'!r}")
    require(path.is_file(), f"{accepted}, {'it is a folder' if path.is_dir() else 'there is no such file'}")
    named = asked.label_column is not None or bool(asked.columns)
    require(ending == ".csv" or not named, f"{path} must be a csv file where label_column or columns is given")
    with readable(path, f"a whole {ending[1:]} file", Exception):  # each library has its own errors for damaged files
        file = _read_csv(path, asked) if ending == ".csv" else _READERS[ending](path)
    require(bool(file.kind or kind), f"{path} does not say what it holds, kind (--from) must be 'logits' or 'probs'")
    require(None in (kind, file.kind) or kind == file.kind, f"{path} holds {file.kind} by name, kind (--from) must not be {kind!r}")
    return replace(file, kind=file.kind or kind)


def _named(path: Path, arrays: dict[str, Any]) -> ScoreFile:
    """From arrays with names."""
    kinds = [kind for kind in KINDS if kind in arrays]
    require(len(kinds) == 1, f"{path} must hold one array named 'logits' or 'probs', got {' and '.join(kinds) or 'neither'}")
    names = arrays.get("class_names")
    if names is not None:
        names = names.tolist() if isinstance(names, np.ndarray) else names
        valid = isinstance(names, (list, tuple)) and all(isinstance(name, (str, bytes)) for name in names)
        require(valid, f"{path}: class_names must be a list of strings")
        names = tuple(name.decode(errors="replace") if isinstance(name, bytes) else name for name in names)
    return ScoreFile(arrays[kinds[0]], arrays.get("labels"), kinds[0], names)


def _read_pt(path: Path) -> ScoreFile:
    held = read_pt(path)
    if isinstance(held, dict):
        arrays = {name: _array(path, name, held[name]) for name in (*KINDS, "labels") if name in held}
        return _named(path, arrays | {"class_names": held.get("class_names")})
    if isinstance(held, (tuple, list)) and len(held) == 2:
        return ScoreFile(_array(path, "its first entry", held[0]), _array(path, "its second entry", held[1]), None)
    if isinstance(held, Tensor):
        return ScoreFile(_array(path, "scores", held), None, None)
    raise InvalidInput(f"{path} must hold a dict with 'logits' or 'probs' and 'labels', or (scores, labels), got {type(held).__name__}")


def _array(path: Path, name: str, value: Any) -> NDArray[Any]:
    if name == "labels" and isinstance(value, (list, tuple)) and all(isinstance(label, str) for label in value):
        return np.array(value)
    require(isinstance(value, Tensor), f"{path}: {name} must be a tensor, got {type(value).__name__}")
    # An expanded tensor is stored as one element.
    require_fits(path, value.numel() * value.element_size())
    # numpy has no bfloat16.
    return (value.float() if value.dtype == torch.bfloat16 else value).detach().numpy()


def _read_safetensors(path: Path) -> ScoreFile:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        wanted: dict[str, Any] = {name: _array(path, name, file.get_tensor(name)) for name in (*KINDS, "labels") if name in file.keys()}  # noqa: SIM118
        names = (file.metadata() or {}).get("class_names")
    # The format holds no texts but in its metadata.
    return _named(path, wanted | {"class_names": None if names is None else json.loads(names)})


def _read_csv(path: Path, asked: Asked) -> ScoreFile:
    """Scores, and class indices if labels are asked for."""
    with errors_about(path), path.open(encoding="utf-8-sig", newline="") as file:
        line = file.readline()
        require(bool(line.strip()), "the first line must hold names or numbers, it is empty")
        delimiter = next((sign for sign in ",;\t" if sign in line), ",")
        file.seek(0)
        rows = ([cell.strip() for cell in row] for row in csv.reader(file, delimiter=delimiter) if row)
        first, below = next(rows), list(islice(rows, 30))
        named = not all(map(is_number, first))
        try:
            layout = by_name(first, below, asked) if named else None
        except InvalidInput as error:
            command = example(first, below, asked)
            raise InvalidInput(
                f"{error}; for example: rankmixup evaluate {shlex.quote(str(path))} {command}" if command else str(error)
            ) from None
        file.seek(0)
        # Tables without names are often saved with a first row 0, 1, 2, ..., which is not data.
        if named or first == [str(column) for column in range(len(first))]:
            next(csv.reader(file, delimiter=delimiter))
        table, texts = _table(file, delimiter, len(first), layout)
        layout = layout or by_number(table, asked)
        class_names = layout.class_names or _two_names(texts, layout.positive)
        if class_names is None and layout.num_classes == 2:
            class_names = answers(texts)
        labels = _labels(texts or table[:, layout.label], replace(layout, class_names=class_names)) if asked.labelled else None
        return ScoreFile(table[:, layout.scores], labels, layout.kind, class_names)


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
            where = re.sub(r"at row (\d+), column (\d+)", _place_of_cell, str(error).split(";")[0].rstrip(".")[:200])
            raise InvalidInput(f"every row must hold as many numbers; {where}") from error
    require(len(table) > 0, "there must be at least one row of numbers, got none")
    require(table.shape[1] == width, f"the first row must have as many cells as the others, {table.shape[1]}, got {width}")
    return table, texts


def _place_of_cell(found: re.Match[str]) -> str:
    """Numpy counts rows from 0 and columns from 1."""
    return f"in row {int(found[1]) + 1}, column {found[2]} (both counted from 1, without a header)"


def _two_names(labels: list[str], positive: str | None) -> tuple[str, str] | None:
    """Names of two classes: that of class 1, and the other one among the labels; None if they are 0 and 1."""
    others = sorted(set(labels) - {positive})
    if positive is None or not labels or all(map(is_number, others)):
        return None
    rule = f"labels must be 0 and 1, or {positive!r} and one other name, since the only column of scores is that of {positive!r}"
    require(len(others) == 1 and positive in labels, f"{rule}, got {listed(others)}")
    return others[0], positive


def _labels(values: list[str] | NDArray[np.float64], layout: Layout) -> NDArray[np.int64]:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except ValueError:
        return class_indices(list(values), layout.class_names)
    first, last = layout.first_label, layout.first_label + layout.num_classes - 1
    right = (numbers == np.round(numbers)) & (numbers >= first) & (numbers <= last)
    row = int(right.argmin())
    wrong = f"labels must be whole class indices in {first}..{last}, row {row} has {numbers[row]:.17g}"
    require(bool(right.all()), f"{wrong}; {NAME_LABELS}")
    return numbers.astype(np.int64) - first


def class_indices(labels: Sequence[str], class_names: Sequence[str] | None) -> NDArray[np.int64]:
    """The position of each label in the class names."""
    if class_names is None:
        row = next((row for row, label in enumerate(labels) if not is_number(label)), 0)
        advice = "; a csv file names a class in the column of its scores, such as prob_NAME"
        raise InvalidInput(f"labels must be class indices if classes have no names, row {row} has {labels[row][:40]!r}{advice}")
    places = {name: place for place, name in enumerate(class_names)}
    for row, label in enumerate(labels):
        require(label in places, f"labels must be class names, row {row} has {label[:40]!r}")
    return np.array([places[label] for label in labels], dtype=np.int64)


_READERS: dict[str, Callable[[Path], ScoreFile]] = {
    ".npz": lambda path: _named(path, read_npz(path, optional=(*KINDS, "labels", "class_names"))),
    ".pt": _read_pt,
    ".pth": _read_pt,
    ".safetensors": _read_safetensors,
}
