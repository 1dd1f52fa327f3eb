"""Files of scores from anywhere: npz, pt, safetensors and csv. Nothing in them is ever executed."""

import io
import json
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankmixup.errors import InvalidInput, require
from rankmixup.evaluation.csv_columns import Asked
from rankmixup.evaluation.score_csv import ScoreFile, read_csv
from rankmixup.files import read_npz, readable, require_fits

KINDS = ("logits", "probs")
"""Kinds of scores; arrays with one of these names need no other declaration."""


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
        file = read_csv(path, asked) if ending == ".csv" else _READERS[ending](path)
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
    verified = _verified_pt(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about how files were saved
        try:
            held = torch.load(verified, map_location="cpu", weights_only=True)
        except Exception as error:
            if "weights_only" in str(error) or "Unsupported" in str(error):
                raise InvalidInput(f"{path} must be a whole pt file of plain tensors; other objects are never loaded") from error
            raise
    if isinstance(held, dict):
        arrays = {name: _array(path, name, held[name]) for name in (*KINDS, "labels") if name in held}
        return _named(path, arrays | {"class_names": held.get("class_names")})
    if isinstance(held, (tuple, list)) and len(held) == 2:
        return ScoreFile(_array(path, "its first entry", held[0]), _array(path, "its second entry", held[1]), None)
    if isinstance(held, Tensor):
        return ScoreFile(_array(path, "scores", held), None, None)
    raise InvalidInput(f"{path} must hold a dict with 'logits' or 'probs' and 'labels', or (scores, labels), got {type(held).__name__}")


def _verified_pt(path: Path) -> io.BytesIO:
    """A copy of the archive whose checksums were verified; refuses a file that is damaged or unpacks to too much.

    torch verifies no checksums, and trusts flags in the archive's directory that no checksum covers: if one of them turns a tensor into
    a folder, torch returns uninitialised memory.
    """
    hint = "older files are never loaded, save it again with torch.save(torch.load(path, weights_only=True), path)"
    require(zipfile.is_zipfile(path), f"{path} must be a zip file, as torch.save has written since torch 1.6; {hint}")
    verified = io.BytesIO()
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(verified, "w") as copy:
        require_fits(path, sum(member.file_size for member in archive.infolist()))
        for member in archive.infolist():
            content = archive.read(member)
            # torch unpickles a bytearray of any size from a few bytes.
            bomb = member.filename.endswith(".pkl") and b"bytearray" in content
            require(not bomb, f"{path} must be a pt file of plain tensors; it holds a bytearray, which is never loaded")
            copy.writestr(member.filename, content)
    verified.seek(0)
    return verified


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


_READERS: dict[str, Callable[[Path], ScoreFile]] = {
    ".npz": lambda path: _named(path, read_npz(path, optional=(*KINDS, "labels", "class_names"))),
    ".pt": _read_pt,
    ".pth": _read_pt,
    ".safetensors": _read_safetensors,
}
