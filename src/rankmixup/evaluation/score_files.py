"""Files of scores from anywhere: npz, pt, safetensors and csv. Nothing in them is ever executed."""

import io
import json
import warnings
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankmixup.errors import InvalidInput, require
from rankmixup.evaluation.csv_columns import Asked
from rankmixup.evaluation.score_csv import read_csv
from rankmixup.files import read_npz, reason, require_fits

__all__ = ["KINDS", "ScoreFile", "read_score_file"]

KINDS = ("logits", "probs")
"""What scores can be; arrays that bear one of these names say it themselves."""


@dataclass(frozen=True)
class ScoreFile:
    """What a file holds, with the kind it names itself, if any."""

    scores: NDArray[Any]
    labels: NDArray[Any] | None
    """Class indices, or names of classes; None also where a csv file was not asked for them."""
    kind: str | None
    class_names: tuple[str, ...] | None = None


def read_score_file(
    path: Path, kind: str | None = None, *, labelled: bool = True, label_column: str | None = None, columns: Sequence[str] = ()
) -> ScoreFile:
    """Scores, labels if there are any, and class names if there are any.

    `kind` says what scores without a name are. `label_column` and `columns` say where a csv file has its labels and its scores; by which
    rules this is found out otherwise stands in `csv_columns`. `labelled` says whether a csv file must have labels.
    """
    require(kind is None or kind in KINDS, f"kind must be 'logits' or 'probs', got {kind!r}")
    ending = path.suffix.lower()
    accepted = f"{path} must be an npz file, or a pt, pth, safetensors or csv file"
    require(ending in (".csv", *_READERS), f"{accepted}, got {ending or 'no ending'!r}")
    require(path.is_file(), f"{accepted}, {'it is a folder' if path.is_dir() else 'there is no such file'}")
    asked = Asked(kind, labelled, label_column, tuple(columns))
    named = label_column is not None or bool(columns)
    require(ending == ".csv" or not named, f"{path} must be a csv file where label_column or columns is given")
    try:
        file = _read_csv(path, asked) if ending == ".csv" else _READERS[ending](path)
    except InvalidInput:
        raise
    except Exception as error:  # every library has its own ways to say that bytes are broken
        raise InvalidInput(f"{path} must be a whole {ending[1:]} file, it cannot be read ({reason(error)})") from error
    if file.kind is None:
        require(kind is not None, f"{path} does not say what it holds, kind (--from) must be 'logits' or 'probs'")
    else:
        require(kind in (None, file.kind), f"{path} says itself that it holds {file.kind}, kind (--from) must not be {kind!r}")
    return ScoreFile(file.scores, file.labels, file.kind or kind, file.class_names)


def _read_csv(path: Path, asked: Asked) -> ScoreFile:
    try:
        scores, labels, layout = read_csv(path, asked)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None
    return ScoreFile(scores, labels, layout.kind, layout.class_names)


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
    return _named(path, read_npz(path, optional=(*KINDS, "labels", "class_names")))


def _read_pt(path: Path) -> ScoreFile:
    verified = _verified_pt(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch has remarks on how other people's files were saved
        try:
            held = torch.load(verified, map_location="cpu", weights_only=True)
        except Exception as error:
            if "weights_only" in str(error) or "Unsupported" in str(error):
                raise InvalidInput(
                    f"{path} must be a pt file of plain tensors; it holds other pickled objects or is damaged, which are never loaded"
                ) from error
            raise
    if isinstance(held, dict):
        arrays = {name: _array(path, name, held[name]) for name in KINDS if name in held}
        if "labels" in held:
            texts = isinstance(held["labels"], (list, tuple)) and all(isinstance(label, str) for label in held["labels"])
            arrays["labels"] = np.array(held["labels"]) if texts else _array(path, "labels", held["labels"])
        return _named(path, arrays | {name: held[name] for name in ("class_names",) if name in held})
    if isinstance(held, (tuple, list)) and len(held) == 2:
        return ScoreFile(_array(path, "its first entry", held[0]), _array(path, "its second entry", held[1]), None)
    if isinstance(held, Tensor):
        return ScoreFile(_array(path, "scores", held), None, None)
    raise InvalidInput(f"{path} must hold a dict with 'logits' or 'probs' and 'labels', or (scores, labels), got {type(held).__name__}")


def _verified_pt(path: Path) -> io.BytesIO:
    """The archive packed anew from what its checksums vouch for; refuses what is damaged or unpacks to too much.

    torch compares no checksums, and trusts flags in the directory of the archive that none covers: where one of them turns a tensor into
    a folder, it returns whatever was in memory.
    """
    if not zipfile.is_zipfile(path):
        raise InvalidInput(
            f"{path} must be a zip file, as torch.save has written since torch 1.6; older files have no checksums and are never loaded: "
            "save it again with torch.save(torch.load(path, weights_only=True), path)"
        )
    verified = io.BytesIO()
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(verified, "w") as copy:
        require_fits(path, sum(member.file_size for member in archive.infolist()))
        for member in archive.infolist():
            content = archive.read(member)
            # The one thing that torch unpickles of any size that a few bytes ask for.
            bomb = member.filename.endswith(".pkl") and b"bytearray" in content
            require(not bomb, f"{path} must be a pt file of plain tensors; it holds a bytearray, which is never loaded")
            copy.writestr(member.filename, content)
    verified.seek(0)
    return verified


def _array(path: Path, name: str, value: Any) -> NDArray[Any]:
    require(isinstance(value, Tensor), f"{path}: {name} must be a tensor, got {type(value).__name__}")
    # An expanded tensor is stored as a single element.
    require_fits(path, value.numel() * value.element_size())
    # numpy knows no bfloat16.
    return (value.float() if value.dtype == torch.bfloat16 else value).detach().numpy()


def _read_safetensors(path: Path) -> ScoreFile:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        wanted: dict[str, Any] = {name: _array(path, name, file.get_tensor(name)) for name in (*KINDS, "labels") if name in file.keys()}  # noqa: SIM118
        names = (file.metadata() or {}).get("class_names")
    # The format holds no texts but in its metadata.
    return _named(path, wanted | ({} if names is None else {"class_names": json.loads(names)}))


_READERS: dict[str, Callable[[Path], ScoreFile]] = {
    ".npz": _read_npz,
    ".pt": _read_pt,
    ".pth": _read_pt,
    ".safetensors": _read_safetensors,
}
