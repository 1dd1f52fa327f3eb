"""Files of scores from anywhere: npz, pt, safetensors and csv. Nothing in them is ever executed."""

import json
import re
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankmixup.errors import InvalidInput, require
from rankmixup.files import read_npz

__all__ = ["KINDS", "ScoreFile", "read_score_file"]

KINDS = ("logits", "probs")
"""What scores can be; arrays that bear one of these names say it themselves."""


@dataclass(frozen=True)
class ScoreFile:
    """What a file holds, with the kind it names itself, if any."""

    scores: NDArray[Any]
    labels: NDArray[Any] | None
    kind: str | None
    class_names: tuple[str, ...] | None = None


def read_score_file(path: Path, kind: str | None = None, *, labelled: bool = True) -> ScoreFile:
    """Scores, labels if there are any, and class names if there are any.

    `kind` says what scores without a name are; `labelled` says whether the last column of a csv without names holds labels.
    """
    require(kind is None or kind in KINDS, f"kind must be 'logits' or 'probs', got {kind!r}")
    ending = path.suffix.lower()
    accepted = f"{path} must be an npz file, or a pt, pth, safetensors or csv file"
    require(ending in (".csv", *_READERS), f"{accepted}, got {ending or 'no ending'!r}")
    require(path.is_file(), f"{accepted}, {'it is a folder' if path.is_dir() else 'there is no such file'}")
    try:
        file = _read_csv(path, labelled) if ending == ".csv" else _READERS[ending](path)
    except InvalidInput:
        raise
    except Exception as error:  # every library has its own ways to say that bytes are broken
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise InvalidInput(f"{path} must be a whole {ending[1:]} file, it cannot be read ({reason.rstrip('.')})") from error
    if file.kind is None:
        require(kind is not None, f"{path} does not say what it holds, kind (--from) must be 'logits' or 'probs'")
    else:
        require(kind in (None, file.kind), f"{path} says itself that it holds {file.kind}, kind (--from) must not be {kind!r}")
    return ScoreFile(file.scores, file.labels, file.kind or kind, file.class_names)


def _named(path: Path, arrays: dict[str, Any]) -> ScoreFile:
    """From arrays with names."""
    kinds = [kind for kind in KINDS if kind in arrays]
    require(len(kinds) == 1, f"{path} must hold one array named 'logits' or 'probs', got {' and '.join(kinds) or 'neither'}")
    return ScoreFile(arrays[kinds[0]], arrays.get("labels"), kinds[0], _names(path, arrays.get("class_names")))


def _names(path: Path, names: Any) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, np.ndarray):
        names = names.tolist()
    whole = isinstance(names, (list, tuple)) and all(isinstance(name, (str, bytes)) for name in names)
    require(whole, f"{path}: class_names must be a list of texts")
    return tuple(name.decode(errors="replace") if isinstance(name, bytes) else name for name in names)


def _read_npz(path: Path) -> ScoreFile:
    if zipfile.is_zipfile(path):
        # numpy leaves the file open where its directory is damaged; zipfile says so and closes it.
        zipfile.ZipFile(path).close()
    return _named(path, read_npz(path, optional=(*KINDS, "labels", "class_names")))


def _read_pt(path: Path) -> ScoreFile:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch has remarks on how other people's files were saved
        try:
            held = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:
            if "weights_only" in str(error) or "Unsupported" in str(error):
                raise InvalidInput(
                    f"{path} must be a pt file of plain tensors; it holds other pickled objects or is damaged, which are never loaded"
                ) from error
            raise
    if isinstance(held, dict):
        wanted = {name: held[name] for name in (*KINDS, "labels", "class_names") if name in held}
        return _named(path, {name: _array(path, name, value) if name != "class_names" else value for name, value in wanted.items()})
    if isinstance(held, (tuple, list)) and len(held) == 2:
        return ScoreFile(_array(path, "its first entry", held[0]), _array(path, "its second entry", held[1]), None)
    if isinstance(held, Tensor):
        return ScoreFile(_array(path, "scores", held), None, None)
    raise InvalidInput(f"{path} must hold a dict with 'logits' or 'probs' and 'labels', or (scores, labels), got {type(held).__name__}")


def _array(path: Path, name: str, value: Any) -> NDArray[Any]:
    require(isinstance(value, Tensor), f"{path}: {name} must be a tensor, got {type(value).__name__}")
    # numpy knows no bfloat16.
    return (value.float() if value.dtype == torch.bfloat16 else value).detach().numpy()


def _read_safetensors(path: Path) -> ScoreFile:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        wanted: dict[str, Any] = {name: _array(path, name, file.get_tensor(name)) for name in (*KINDS, "labels") if name in file.keys()}  # noqa: SIM118
        names = (file.metadata() or {}).get("class_names")
    # The format holds no texts but in its metadata.
    return _named(path, wanted | ({} if names is None else {"class_names": json.loads(names)}))


def _read_csv(path: Path, labelled: bool) -> ScoreFile:
    with path.open(encoding="utf-8-sig") as file:
        first = file.readline()
    require(bool(first.strip()), f"{path} must begin with a row of numbers or names, its first line is empty")
    delimiter = next((sign for sign in ",;\t" if sign in first), ",")
    cells = [cell.strip().strip('"').strip() for cell in first.split(delimiter)]
    # Tables without names are often saved with a first row 0, 1, 2, ..., which is none of the data.
    header = not all(_is_number(cell) for cell in cells) or cells == [str(column) for column in range(len(cells))]
    with path.open(encoding="utf-8-sig") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there are no rows is said below
        try:
            table = np.loadtxt(file, delimiter=delimiter, skiprows=int(header), ndmin=2, quotechar='"', comments=None)
        except ValueError as error:
            raise InvalidInput(f"{path} must hold as many numbers in every row; {str(error).split(';')[0].rstrip('.')}") from error
    require(len(table) > 0, f"{path} must hold at least one row of numbers, got none")
    require(not header or len(cells) == table.shape[1], f"{path} must have a name for each of {table.shape[1]} columns, got {len(cells)}")
    return _columns(path, table, cells if header else None, labelled)


def _columns(path: Path, table: NDArray[Any], header: list[str] | None, labelled: bool) -> ScoreFile:
    """Tell labels from scores: a column named label or labels, or else the last one."""
    names = [name.lower() for name in header] if header is not None else [""] * table.shape[1]
    named = [column for column, name in enumerate(names) if name in ("label", "labels")]
    require(len(named) <= 1, f"{path} must have one column of labels, got {len(named)}")
    label = named[0] if named else len(names) - 1 if labelled else None
    columns = [column for column, name in enumerate(names) if column != label and (name not in ("index", "id", "") or header is None)]
    require(len(columns) > 0, f"{path} must have at least one column of scores and one of labels, got {len(names)} in all")
    labels = None
    if label is not None:
        whole = table[:, label] == np.round(table[:, label])
        wrong = int(whole.argmin())
        require(bool(whole.all()), f"{path}: labels must be whole class indices, row {wrong} has {table[wrong, label]:g}")
        require(bool((np.abs(table[:, label]) < 2**53).all()), f"{path}: labels must be class indices, one is too large")
        labels = table[:, label].astype(np.int64)
    if header is None:
        return ScoreFile(table[:, columns], labels, None)
    kind, class_names, order = _told(path, [header[column] for column in columns])
    return ScoreFile(table[:, [columns[place] for place in order]], labels, kind, class_names)


def _told(path: Path, names: list[str]) -> tuple[str | None, tuple[str, ...] | None, list[int]]:
    """What the names of score columns tell: logits or probabilities, the classes' names (none where they are numbers), their order."""
    kind = None
    for candidate, prefix in (("logits", r"logits?"), ("probs", r"prob(?:s|ability|abilities)?")):
        matches = [re.fullmatch(prefix + r"[\s_.:\[-]*(.*?)\]?", name, flags=re.IGNORECASE) for name in names]
        found = [match for match in matches if match is not None]
        if len(found) == len(names):
            kind, names = candidate, [match.group(1) for match in found]
    numbered = [match for name in names if (match := re.fullmatch(r"(\D*)(\d+)", name)) is not None]
    if len(numbered) == len(names) and len({match.group(1) for match in numbered}) == 1:
        numbers = [int(match.group(2)) for match in numbered]
        if sorted(numbers) in (list(range(len(numbers))), list(range(1, len(numbers) + 1))):
            return kind, None, sorted(range(len(numbers)), key=numbers.__getitem__)
    repeated = [name for name in names if names.count(name) > 1]
    require(not repeated, f"{path} must give every column a name of its own, got {repeated[:1]} more than once")
    return kind, tuple(names), list(range(len(names)))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


_READERS: dict[str, Callable[[Path], ScoreFile]] = {
    ".npz": _read_npz,
    ".pt": _read_pt,
    ".pth": _read_pt,
    ".safetensors": _read_safetensors,
}
