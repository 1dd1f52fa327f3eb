"""Checkpoints: written whole or not at all, checked for damage before they are read, read without executing anything."""

import hashlib
import io
import pickle
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rankmixup.errors import WorkFailed, require, shown
from rankmixup.files import write_atomic
from rankmixup.runs.store import CHECKPOINT_NAME, checkpoint_files

SCHEMA = 2
"""Of the content of a file; 1 had neither this number nor the id of the run."""
_INTERVAL = re.compile(r"\s*(?P<number>\d+(\.\d*)?)\s*(?P<unit>steps?|min|minutes?)\s*")


@dataclass(frozen=True)
class CheckpointInterval:
    """Steps or seconds between two checkpoints: whichever is given.

    >>> CheckpointInterval.parse("200steps"), CheckpointInterval.parse("5min")
    (CheckpointInterval(steps=200, seconds=None), CheckpointInterval(steps=None, seconds=300.0))
    """

    steps: int | None = None
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str) -> "CheckpointInterval":
        """From `Nsteps` or `Nmin`."""
        match = _INTERVAL.fullmatch(text)
        number = float(match["number"]) if match else 0.0
        if match and match["unit"].startswith("min"):
            return cls(seconds=60 * number)
        rule = "must be a whole number of steps or a number of minutes, as in 200steps or 5min"
        require(number.is_integer() and number >= 1, f"checkpoint_every {rule}, got {text!r}")
        return cls(steps=int(number))

    def after_step(self, position: int) -> bool:
        """Whether the state after `position` steps is to be saved."""
        return self.steps is not None and position % self.steps == 0

    def after_time(self, seconds: float) -> bool:
        """Whether a state is to be saved, `seconds` after the last one was."""
        return self.seconds is not None and seconds >= self.seconds


class Checkpoints:
    """The folder of a run's checkpoints: the last two states that training can go on from, and the best weights up to each.

    A file is named by the number of steps taken and by the beginning of the SHA-256 of its own content, which says whose it is.
    """

    def __init__(self, folder: Path, run: str):
        self.folder, self.run = folder, run
        self._kept: list[set[str]] = []
        self._best: dict[str, Any] = {}

    def save(self, position: int, state: Mapping[str, Any], best: Mapping[str, Any]) -> None:
        """Write `state` after `position` steps and, if they are new, the weights `best["model"]` of epoch `best["epoch"]`.

        Only then are older files removed, and what a crash left half-written.
        """
        if best and best["epoch"] != self._best.get("epoch"):
            described = {name: value for name, value in best.items() if name != "model"}
            self._best = {**described, "file": self._write("best", position, best)}
        name = self._write("step", position, {**state, "best": self._best})
        self._kept = [*self._kept, {name, self._best.get("file", name)}][-2:]
        for path in self.folder.iterdir():
            # A folder of such a name is not ours, and in nobody's way.
            if CHECKPOINT_NAME.search(path.name) and path.is_file() and path.name not in set().union(*self._kept):
                path.unlink()

    @property
    def exist(self) -> bool:
        """Whether there is a state to go on from, readable or not."""
        return bool(checkpoint_files(self.folder, "step"))

    def newest(self) -> tuple[Path | None, list[str]]:
        """The newest checkpoint that can be read, None if there is none at all, and what is wrong with newer ones.

        One of another run or version is no damage to get around: it is refused, before the next save would remove it.
        """
        complaints: list[str] = []
        for path in checkpoint_files(self.folder, "step"):
            try:
                self.load(path)
            except WorkFailed as error:
                complaints.append(str(error))
            else:
                return path, complaints
        if complaints:
            raise WorkFailed(f"no checkpoint in {self.folder} can be read, and none was removed: {'; '.join(complaints)}")
        return None, []

    def load(self, path: Path) -> dict[str, Any]:
        """The state in `path`, whose best weights can be read too; the next checkpoint is kept beside this one."""
        state = load_checkpoint(path, self.run)
        best: Any = state.get("best")
        match best:
            case {"epoch": int(), "file": str(file), "val": {"accuracy": float(), "nll": float()}}:
                load_checkpoint(self.folder / file, self.run)
            case dict() if not best:
                file = path.name
            case _:
                raise WorkFailed(f"checkpoint {path} is not one of ours: it does not describe the best epoch")
        self._best, self._kept = best, [{path.name, file}]
        return state

    def _write(self, kind: str, position: int, state: Mapping[str, Any]) -> str:
        buffer = io.BytesIO()
        torch.save({"schema": SCHEMA, "run": self.run, **state}, buffer)
        name = f"{kind}-{position:08d}-{hashlib.sha256(buffer.getbuffer()).hexdigest()[:12]}.pt"
        path = self.folder / name
        try:
            write_atomic(path, buffer.getbuffer())
        except OSError as error:
            raise WorkFailed(f"checkpoint {path} could not be written ({error.strerror}); the one before it is untouched") from error
        return name


def load_best(folder: Path, run: str, digest: str = "") -> dict[str, Any]:
    """The weights of the selected epoch of the finished run with the id `run`, by name; with `digest`, those of the file with this one."""
    for path in checkpoint_files(folder, "best"):
        if digest and not path.stem.endswith(f"-{digest}"):
            continue
        weights = load_checkpoint(path, run).get("model")
        if not isinstance(weights, dict):
            raise WorkFailed(f"checkpoint {path} is not one of ours: it holds no weights")
        return weights
    raise WorkFailed(f"{folder} has no checkpoint of the best epoch{digest and f' with the digest {digest}'}")


def load_checkpoint(path: Path, run: str) -> dict[str, Any]:
    """The tensors and plain values of one file, which must be what the run with the id `run` wrote under its name."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise WorkFailed(f"checkpoint {path} cannot be read ({error.strerror})") from error
    name = CHECKPOINT_NAME.fullmatch(path.name)
    if name is None or hashlib.sha256(content).hexdigest()[:12] != name["digest"]:
        raise WorkFailed(f"checkpoint {path} is damaged: its content is not what its name says")
    try:
        # torch would try a file that is no zip as one of its older formats, with errors of every kind.
        if not zipfile.is_zipfile(io.BytesIO(content)):
            raise zipfile.BadZipFile
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except (RuntimeError, ValueError, EOFError, KeyError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise WorkFailed(f"checkpoint {path} is not one of ours: it holds more than tensors and plain values") from error
    if not isinstance(state, dict):
        raise WorkFailed(f"checkpoint {path} is not one of ours: it holds a {type(state).__name__}")
    schema, owner = state.get("schema", 1), state.get("run")
    rule = f"checkpoint {path} must have the format {SCHEMA} that this version reads, it has format {shown(schema)}"
    advice = "finish the run with the version that began it, or train it again in another folder (--runs)"
    require(isinstance(schema, int) and schema == SCHEMA, f"{rule}; {advice}")
    require(isinstance(owner, str) and owner == run, f"checkpoint {path} must be of run {run}, it is of run {shown(owner)}")
    return state
