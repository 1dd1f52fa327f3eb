"""The directory of a run: what it is, how far it got, and what came of it."""

import contextlib
import fcntl
import json
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from rankmixup.errors import InvalidInput, RunBusy
from rankmixup.files import append_line, read_json, write_atomic, write_json
from rankmixup.runs.provenance import flat
from rankmixup.runs.run import Run
from rankmixup.runs.scores import Scores

__all__ = ["RunState", "StoredRun", "environment"]

RunState = Literal["running", "finished", "interrupted"]

_ATTEMPTS = 10
"""How often a lock is asked for before it counts as taken: who only looks at the state of a run holds it for a moment."""


class StoredRun:
    """`RUNS/<id>`: run.json, splits.json, env.json, log.jsonl, metrics.csv, checkpoints/, predictions/ and, once finished, result.json."""

    def __init__(self, path: Path, run: Run):
        self.path = path
        self.run = run

    @classmethod
    def locate(cls, root: str | os.PathLike[str], run: Run) -> "StoredRun":
        """The directory of `run` below `root`, whether or not it exists; refused if something else is there."""
        path = Path(root) / run.id
        if cls(path, run).created:
            stored = cls.open(path)
            if stored.run != run:
                raise InvalidInput(f"{path} must hold run {run.id}, but its run.json describes another configuration")
            return stored
        if path.is_dir() and any(path.iterdir()):
            raise InvalidInput(f"{path} must be a run directory or empty, but it has files and no run.json")
        return cls(path, run)

    @property
    def created(self) -> bool:
        """Whether the directory is there."""
        return (self.path / "run.json").exists()

    def create(self) -> None:
        """Make the directory."""
        try:
            for folder in (self.path / "checkpoints", self.path / "predictions"):
                folder.mkdir(parents=True, exist_ok=True)
            write_json(self.path / "run.json", self.run.to_dict())
        except OSError as error:
            raise InvalidInput(f"{self.path} must be a directory that can be written to ({error})") from error

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "StoredRun":
        """An existing run directory."""
        path = Path(path)
        if not (path / "run.json").is_file():
            raise InvalidInput(f"{path} must be a run directory, but it has no run.json")
        return cls(path, Run.from_dict(read_json(path / "run.json")))

    def refuse_changes(self, run: Run) -> None:
        """Raise `InvalidInput` with every field in which `run` differs from this one."""
        stored, asked = flat(self.run.to_dict()), flat(run.to_dict())
        changes = [f"{name} {stored.get(name)} -> {asked.get(name)}" for name in stored | asked if stored.get(name) != asked.get(name)]
        if changes:
            raise InvalidInput(f"run {self.path} cannot change: {', '.join(changes)}")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other process from training this run; the system forgets the lock with the process."""
        with (self.path / "lock").open("a") as file:
            # A worker process that outlives this one must not keep its lock.
            os.register_at_fork(after_in_child=file.close)
            for attempt in range(_ATTEMPTS):
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if attempt == _ATTEMPTS - 1:
                        raise RunBusy(f"run {self.path} must be trained by one process at a time, and another one trains it") from None
                    time.sleep(0.1)
            yield

    @property
    def state(self) -> RunState:
        """How the run stands."""
        if self.finished:
            return "finished"
        try:
            with (self.path / "lock").open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return "running"
        except FileNotFoundError:
            pass
        return "interrupted"

    @property
    def finished(self) -> bool:
        """Whether there is a result."""
        return (self.path / "result.json").exists()

    @property
    def result(self) -> dict[str, Any]:
        """What result.json holds."""
        if not self.finished:
            raise InvalidInput(
                f"run {self.path} must be finished to have a result; continue it with 'rankmixup train --resume {self.path}'"
            )
        return read_json(self.path / "result.json")

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.path / "checkpoints"

    def predictions_path(self, split: str) -> Path:
        """Where the scores of a split are."""
        return self.path / "predictions" / f"{split}.npz"

    def predictions(self, split: str) -> Scores:
        """Stored scores of `val` or `test`, of the selected epoch."""
        self.result  # noqa: B018 - raises for a run without any
        return Scores.read(self.predictions_path(split))

    def log(self, record: dict[str, Any]) -> None:
        """Append one epoch to log.jsonl."""
        append_line(self.path / "log.jsonl", record)

    @property
    def history(self) -> list[dict[str, Any]]:
        """The records of log.jsonl, one for each epoch; a line that a crash cut short is left out."""
        path = self.path / "log.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines if _epoch_of(line) < float("inf")]

    def trim_log(self, epochs: int) -> None:
        """Forget what was logged after `epochs` epochs: a resumed run logs it again."""
        path = self.path / "log.jsonl"
        if path.exists():
            lines = [line for line in path.read_text().splitlines() if _epoch_of(line) <= epochs]
            write_atomic(path, "".join(line + "\n" for line in lines).encode())


def _epoch_of(line: str) -> float:
    try:
        return float(json.loads(line)["epoch"])
    except (ValueError, KeyError, TypeError):
        return float("inf")  # a line that a crash cut short belongs to no finished epoch


def environment() -> dict[str, Any]:
    """Versions and hardware, for env.json."""
    from importlib.metadata import version

    import torch

    packages = ("rankmixup", "torch", "torchvision", "lightning-fabric", "numpy", "scikit-learn", "scipy")
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: version(name) for name in packages},
        "threads": torch.get_num_threads(),
        "cuda": torch.version.cuda if torch.cuda.is_available() else None,
        "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        or [platform.processor() or platform.machine()],
    }
