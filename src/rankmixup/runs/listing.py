"""All runs below a folder, and how far each has come."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rankmixup.errors import InvalidInput, one_line, require
from rankmixup.runs.run import improves
from rankmixup.runs.store import RunState, StoredRun


@dataclass(frozen=True)
class EpochSummary:
    """Validation metrics of one epoch."""

    epoch: int
    accuracy: float
    nll: float
    ece: float
    tau: float | None


@dataclass(frozen=True)
class RunSummary:
    """One run, and its best epoch by the run's own rule of selection."""

    id: str
    method: str
    data: str
    model: str
    seed: int
    state: RunState
    epoch: int
    epochs: int
    best: EpochSummary | None
    last: EpochSummary | None


@dataclass(frozen=True)
class RunListing:
    """Runs by data, model, method and seed; and folders that are no whole run, with what is wrong with each."""

    runs: tuple[RunSummary, ...]
    broken: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {"schema": 1, **asdict(self)}


def list_runs(root: Path) -> RunListing:
    """Every folder below `root` but hidden ones."""
    try:
        require(root.is_dir(), f"runs must be a folder, {root} is none")
        paths = sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError as error:
        raise InvalidInput(f"runs must be a folder that can be read, {root} is none ({error.strerror})") from error
    runs, broken = [], {}
    for path in paths:
        try:
            runs.append(_summary(StoredRun.open(path)))
        except (InvalidInput, OSError) as error:
            broken[one_line(path.name)] = str(error)
    return RunListing(tuple(sorted(runs, key=lambda run: (run.data, run.model, run.method, run.seed, run.id))), broken)


def _summary(stored: StoredRun) -> RunSummary:
    run = stored.run
    require(stored.path.name == run.id, f"{stored.path} must be named {run.id}, the id of the run that its run.json describes")
    if stored.finished:
        stored.result()  # raises if it is damaged
    best: EpochSummary | None = None
    last: EpochSummary | None = None
    history = stored.history()
    for record in history:
        val = record.val
        last = EpochSummary(record.epoch, val["accuracy"], val["nll"], val["ece"], record.ranking.get("tau"))
        if improves(val, None if best is None else vars(best), run.selection):
            best = last
    names = (run.method.name, run.data.name, run.model, run.seed)
    return RunSummary(run.id, *names, stored.state, len(history), run.optimisation.epochs, best, last)
