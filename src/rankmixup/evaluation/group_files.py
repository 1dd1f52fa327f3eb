"""Groups of samples from files: another array or column of a score file, or a file of their own. Nothing in them is ever executed."""

import csv
import zipfile
from pathlib import Path
from typing import Any

from torch import Tensor

from rankmixup.errors import InvalidInput, require, shown, unknown_name
from rankmixup.evaluation.csv_columns import is_number
from rankmixup.evaluation.group_labels import Values
from rankmixup.evaluation.score_files import errors_about
from rankmixup.files import read_npz, read_pt, readable, require_fits

_DEFAULT = "groups"
"""The array that is read if none is named."""
ARRAY_SUFFIXES = (".npz", ".pt", ".pth", ".safetensors")
SUFFIXES = (".csv", ".txt", *ARRAY_SUFFIXES)


def read_groups(path: Path, column: str | None = None) -> Values:
    """A value for each sample, in the order of the samples.

    Args:
        path: An npz, pt or safetensors file, a csv file with a header, or plain text with one value in each line.
        column: Name of an array or column. Without it, arrays are read from `groups` or from the only array, and a csv file must have one
            column.
    """
    require(path.is_file(), f"{path} must be a file of groups, {'it is a folder' if path.is_dir() else 'there is no such file'}")
    ending = path.suffix.lower()
    with readable(path, f"a whole file of groups ({ending[1:] or 'text'})", Exception):  # each library has its own errors
        if ending in ARRAY_SUFFIXES:
            return _array(path, ending, column)
        if ending == ".csv":
            return _csv_column(path, column)
        require(column is None, f"{path} must be an npz, pt, safetensors or csv file where a column is named, got {column!r}")
        lines = path.read_text(encoding="utf-8-sig").split("\n")
        return [line.strip() for line in (lines[:-1] if lines[-1] == "" else lines)]


def _array(path: Path, ending: str, column: str | None) -> Values:
    if ending == ".npz":
        require(zipfile.is_zipfile(path), f"{path} must be an npz file, it is of another kind or cut short")
        with zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
        chosen = _chosen(path, column, names)
        return read_npz(path, chosen)[chosen]
    if ending == ".safetensors":
        from safetensors import safe_open

        with safe_open(path, framework="pt") as file:
            return file.get_tensor(_chosen(path, column, list(file.keys())))
    held = read_pt(path)
    require(isinstance(held, dict), f"{path} must hold a dict of tensors or lists by name, got {type(held).__name__}")
    value: Any = held[_chosen(path, column, [name for name in held if isinstance(name, str)])]
    if isinstance(value, Tensor):
        require_fits(path, value.numel() * value.element_size())  # an expanded tensor is stored as one element
    require(isinstance(value, (Tensor, list, tuple)), f"{path}: groups must be a tensor or a list, got {shown(value)}")
    return value


def _chosen(path: Path, column: str | None, names: list[str]) -> str:
    """The name of the array to read."""
    if column is not None:
        if column not in names:
            raise InvalidInput(f"{path}: {unknown_name('array', column, names)}")
        return column
    require(_DEFAULT in names or len(names) == 1, f"{path} must hold an array {_DEFAULT!r} or only one array, it holds {len(names)}")
    return _DEFAULT if _DEFAULT in names else names[0]


def _csv_column(path: Path, column: str | None) -> list[str]:
    with errors_about(path), path.open(encoding="utf-8-sig", newline="") as file:
        line = file.readline()
        delimiter = next((sign for sign in ",;\t" if sign in line), ",")
        file.seek(0)
        rows = [[cell.strip() for cell in row] for row in csv.reader(file, delimiter=delimiter)]
        require(bool(rows) and any(rows[0]), "the first line must hold the names of columns, it is empty")
        names = rows[0]
        if column is None:
            require(len(names) == 1, f"there must be one column, or FILE:COLUMN must name it, got {len(names)} columns")
            return [row[0] if row else "" for row in rows[1:]]  # an empty line is a missing value
        require(not all(map(is_number, names)), "the first line must hold the names of columns, it holds numbers")
        require(names.count(column) < 2, f"every column must have a different name, got {column!r} more than once")
        if column not in names:
            raise unknown_name("column", column, names)
        place, found = names.index(column), []
        for number, row in enumerate(rows[1:], start=2):
            if row:
                require(len(row) == len(names), f"line {number} must have {len(names)} cells, got {len(row)}")
                found.append(row[place])
        return found
