"""The directory of a run: what it is, how far it got, and what came of it."""

import os
import platform
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from rankmixup.config import flatten
from rankmixup.data import GivenData
from rankmixup.data.overlap import Contents
from rankmixup.errors import InvalidInput, require, shown
from rankmixup.evaluation.scores import Scores
from rankmixup.files import append_line, parse_json, read_json, read_npz, readable, write_atomic, write_json, write_npz
from rankmixup.models.own import is_own
from rankmixup.runs.lock import hold_lock, is_locked
from rankmixup.runs.records import Environment, EpochRecord, MixedPredictions, RunResult, Splits
from rankmixup.runs.run import Run

T = TypeVar("T")
CHECKPOINT_NAME = re.compile(r"(?P<kind>step|best)-(?P<position>\d{8,})-(?P<digest>[0-9a-f]{12})\.pt")
"""State or best weights, steps taken, and the beginning of the SHA-256 of the file's content."""
RunState = Literal["running", "finished", "interrupted"]
OWN_PARTS = frozenset(
    {"run.json", "splits.json", "samples.npz", "env.json", "log.jsonl", "metrics.csv", "result.json", "lock", "checkpoints", "predictions"}
    | {"tensorboard", "wandb", "mlflow"}
)
"""Files and folders in the directory of a run that are its own."""


class StoredRun:
    """A run on disk: what it is, how far it got, and what came of it.

    Its directory `RUNS/<id>` holds run.json, splits.json, samples.npz, env.json, log.jsonl, metrics.csv, checkpoints/, predictions/ and,
    once the run is finished, result.json. `rm.train` returns a `StoredRun`; `StoredRun.open(path)` opens one that was trained before.
    Everything is read and checked when it is asked for; a damaged file, or one of another run, raises `InvalidInput`.

    Attributes:
        path: The directory.
        run: The configuration that was trained.
    """

    def __init__(self, path: Path, run: Run):
        self.path, self.run = path, run

    @classmethod
    def locate(cls, root: str | os.PathLike[str], run: Run) -> "StoredRun":
        """The directory of `run` below `root`, whether or not it exists; refused if something else is there."""
        path = Path(root) / run.id
        try:
            if cls(path, run).created:
                stored = cls.open(path)
                require(stored.run == run, f"{path} must hold run {run.id}, but its run.json describes another configuration")
                return stored
            foreign = path.is_dir() and any(path.iterdir())
        except OSError as error:
            raise InvalidInput(f"{path} must be a path that can be read ({error.strerror})") from error
        require(not foreign, f"{path} must be a run directory or empty, but it has files and no run.json")
        return cls(path, run)

    @property
    def created(self) -> bool:
        """Whether the directory is there."""
        return (self.path / "run.json").exists()

    def create(self) -> None:
        """Make the directory, if it is not there."""
        if self.created:
            return
        try:
            for folder in (self.path / "checkpoints", self.path / "predictions"):
                folder.mkdir(parents=True, exist_ok=True)
            write_json(self.path / "run.json", self.run.to_dict())
        except OSError as error:
            raise InvalidInput(f"{self.path} must be a folder that can be written to ({error.strerror})") from error

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "StoredRun":
        """An existing run directory."""
        path = Path(path)
        if not (path / "run.json").is_file():
            raise InvalidInput(f"{path} must be a run directory, but it has no run.json")
        described = read_json(path / "run.json")
        try:
            return cls(path, Run.from_dict(described))
        except InvalidInput as error:
            raise InvalidInput(f"{path / 'run.json'} must describe a run: {error}") from error

    def refuse_changes(self, run: Run) -> None:
        """Raise `InvalidInput` with every field in which `run` differs from this one."""
        stored, asked = flatten(self.run.to_dict()), flatten(run.to_dict())
        changes = [f"{name} {stored.get(name)} -> {asked.get(name)}" for name in stored | asked if stored.get(name) != asked.get(name)]
        if changes:
            raise InvalidInput(f"run {self.path} cannot change: {', '.join(changes)}")

    def locked(self) -> AbstractContextManager[None]:
        """Keep every other process from training this run, see `hold_lock`."""
        return hold_lock(self.path)

    @property
    def state(self) -> RunState:
        """How the run stands."""
        if self.finished:
            return "finished"
        return "running" if is_locked(self.path) else "interrupted"

    @property
    def finished(self) -> bool:
        """Whether there is a result."""
        return (self.path / "result.json").exists()

    @property
    def continued_by(self) -> str:
        """What continues an interrupted run: the command or, for a module or data of the user's own, the call."""
        module, data = is_own(self.run.model), isinstance(self.run.data, GivenData)
        given = [name for name, own in (("model=...", module), ("data=...", data)) if own]
        return f"rm.train(run, {', '.join(given)})" if given else f"'rankmixup train --resume {self.path}'"

    def result(self) -> RunResult:
        """Selected epoch, metrics, temperatures and seconds of a finished run (result.json)."""
        result = self._read("result.json", RunResult.from_dict)
        if result is None:
            raise InvalidInput(f"run {self.path} must be finished to have a result; continue it with {self.continued_by}")
        self._require_own(self.path / "result.json", result.id)
        return result

    def splits(self) -> Splits | None:
        """Sizes and hashes of the splits, class names and how images are prepared (splits.json); None without the file."""
        return self._read("splits.json", Splits.from_dict)

    def contents(self) -> Contents | None:
        """Hashes of the samples that it was trained and validated on (samples.npz); None without the file."""
        path = self.path / "samples.npz"
        if not path.exists():
            return None
        found = read_npz(path, "train", "val", "shape")
        kinds = {name: (each.dtype.name, each.ndim) for name, each in found.items()}
        valid = kinds == {"train": ("uint64", 1), "val": ("uint64", 1), "shape": ("int64", 1)}
        require(valid, f"{path} must hold the hashes of samples that training wrote, it holds other arrays")
        return Contents(**found)

    def environment(self) -> Environment | None:
        """Python, platform, package versions and devices of the training (env.json); None without the file."""
        return self._read("env.json", Environment.from_dict)

    def history(self) -> list[EpochRecord]:
        """One record for each epoch (log.jsonl)."""
        names = ((line, f"{self._log}, line {number}") for number, line in enumerate(self._log_lines(), start=1))
        return [EpochRecord.from_dict(parse_json(line, name), name) for line, name in names]

    def scores(self, split: str) -> Scores:
        """Stored logits of the selected epoch; those of "test" with the names of the classes.

        Args:
            split: "val", "test", or "ood-NAME" for an out-of-distribution set, whose labels have no meaning.
        """
        self.result()  # raises for a run that is not finished
        self.read_predictions(split)  # raises for those of another run
        found = Scores.read(self.predictions_path(split), labelled=not split.startswith("ood-"))
        # Only the test scores are shown class by class, and splits.json is large where a data set is.
        splits = self.splits() if split == "test" else None
        named = splits is not None and len(splits.class_names) == found.scores.shape[1]
        return replace(found, class_names=splits.class_names) if splits is not None and named else found

    def mixes(self) -> MixedPredictions | None:
        """Stored logits and lambda of mixed test samples; None without the file."""
        path = self.predictions_path("mixed")
        return MixedPredictions.from_arrays(self.read_predictions("mixed", "logits", "lam"), str(path)) if path.exists() else None

    def _read(self, name: str, parse: Callable[[Any, str], T]) -> T | None:
        path = self.path / name
        return parse(read_json(path), str(path)) if path.exists() else None

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.path / "checkpoints"

    def predictions_path(self, split: str) -> Path:
        """Where the scores of a split are."""
        return self.path / "predictions" / f"{split}.npz"

    def write_predictions(self, split: str, **arrays: NDArray[Any]) -> None:
        """Store arrays, with the id of this run among them."""
        write_npz(self.predictions_path(split), run=np.array(self.run.id), **arrays)

    def read_predictions(self, split: str, *names: str) -> dict[str, NDArray[Any]]:
        """Arrays that `write_predictions` of this very run has stored."""
        path = self.predictions_path(split)
        arrays = read_npz(path, *names, optional=("run",))
        if "run" not in arrays:
            why = "which older versions did not write; train the run again, in another folder (--runs)"
            raise InvalidInput(f"{path} must hold the id of its run in an array 'run', {why}")
        self._require_own(path, arrays["run"].tolist() if arrays["run"].size == 1 else arrays["run"])
        return arrays

    def _require_own(self, path: Path, owner: Any) -> None:
        require(isinstance(owner, str) and owner == self.run.id, f"{path} must be of run {self.run.id}, it is of run {shown(owner)}")

    def log(self, record: EpochRecord) -> None:
        """Append one epoch to log.jsonl."""
        append_line(self._log, record.to_dict())

    def trim_log(self, epochs: int) -> None:
        """Forget what was logged after `epochs` epochs: a resumed run logs it again."""
        kept = [line for line, record in zip(self._log_lines(), self.history(), strict=True) if record.epoch <= epochs]
        if self._log.exists():
            write_atomic(self._log, b"".join(line + b"\n" for line in kept))

    @property
    def _log(self) -> Path:
        return self.path / "log.jsonl"

    def _log_lines(self) -> list[bytes]:
        # What follows the last newline was cut short by a crash, and belongs to no finished epoch.
        with readable(self._log):
            return self._log.read_bytes().split(b"\n")[:-1] if self._log.exists() else []


def checkpoint_files(folder: Path, kind: Literal["step", "best"]) -> list[Path]:
    """Checkpoints of one kind, the newest first."""
    found = [(match, path) for path in folder.glob(f"{kind}-*.pt") if (match := CHECKPOINT_NAME.fullmatch(path.name))]
    return [path for match, path in sorted(found, key=lambda pair: (int(pair[0]["position"]), pair[1].name), reverse=True)]


def describe_environment() -> dict[str, Any]:
    """Versions and devices of this process, as env.json holds them."""
    from importlib import import_module
    from importlib.metadata import version

    import torch

    # By name, since the facade imports every layer; not from the metadata, which may be that of another installation.
    own = import_module("rankmixup").__version__
    packages = ("torch", "torchvision", "lightning-fabric", "numpy", "scikit-learn", "scipy")
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {"rankmixup": own, **{name: version(name) for name in packages}},
        "threads": torch.get_num_threads(),
        "cuda": torch.version.cuda if torch.cuda.is_available() else None,
        "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        or [platform.processor() or platform.machine()],
    }
