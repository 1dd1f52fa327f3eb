"""Many runs: each trained once, by whoever gets to it first, whatever happens to the others."""

import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rankmixup.data import parse_source
from rankmixup.data.base import resolve_root
from rankmixup.errors import InvalidInput, RankMixupError, RunBusy
from rankmixup.experiments.grid import Task, unknown_set_name
from rankmixup.runs import StoredRun
from rankmixup.training import Workplace, train_at
from rankmixup.training.ood import predict_unknown

_PATIENCE = 1.0
"""Seconds for which a worker rests that was given a run that another process is at."""


@dataclass(frozen=True)
class Outcome:
    """What became of one attempt at a task."""

    kind: Literal["finished", "busy", "failed"]
    """busy: another process is training this very run."""
    reason: str = ""
    """Why it failed."""


@dataclass(frozen=True)
class Event:
    """Something that happened to a task."""

    kind: Literal["started", "finished", "failed", "lost", "waiting"]
    """lost: the worker died, and the task is given to another; waiting: some other command is at it."""
    task: Task
    reason: str = ""


def attempt(task: Task, place: Workplace) -> Outcome:
    """Train a run or finish it, and show it its unknown samples, unless another process is at it."""
    try:
        stored = StoredRun.locate(place.runs, task.run)
        if stored.state == "running":  # asked before its data is read for nothing
            raise RunBusy("another process trains it")
        train_at(place, task.run)
        where = {"data_root": place.data_root, "download": place.download, "hardware": place.hardware}
        for unknown in task.unknown:
            predict_unknown(stored, parse_source(_below(place.data_root, unknown)), unknown_set_name(unknown), **where)  # type: ignore[arg-type]
    except RunBusy:
        time.sleep(_PATIENCE)
        return Outcome("busy")
    except RankMixupError as error:
        return Outcome("failed", str(error))
    except Exception as error:  # whatever is wrong with this run, the others go on
        return Outcome("failed", f"{type(error).__name__}: {error}")
    return Outcome("finished")


def carry_out(
    tasks: Sequence[Task],
    place: Workplace,
    *,
    on: Literal["local", "ray"] = "local",
    workers: int | None = None,
    address: str | None = None,
) -> Iterator[Event]:
    """Do what is not done, in about the order given, telling of each task as it goes; a failed one does not stop the rest.

    Every task is reported finished or failed exactly once. Closing the iterator ends the work, which can be taken up again at any time.
    `workers` processes, by default one for each GPU or else each core, do it on this machine; `address` is that of a Ray cluster.
    """
    # For processes that were started elsewhere.
    place = dataclasses.replace(place, runs=place.runs.absolute(), data_root=resolve_root(place.data_root).absolute())
    missing = []
    for task in dict.fromkeys(tasks):
        try:
            if task.done(place.runs):
                yield Event("finished", task)
            else:
                missing.append(task)
        except InvalidInput as error:  # a damaged run is for a person to look at, and the others go on
            yield Event("failed", task, str(error))
    if not missing:
        return
    if on == "ray":
        from rankmixup.experiments.ray_runner import on_ray

        yield from on_ray(missing, place, address)
    else:
        from rankmixup.experiments.workers import on_workers

        yield from on_workers(missing, place, workers)


def _below(root: Path | None, source: str) -> str:
    """The data set with its path, if it has one, below the data root."""
    kind, colon, path = source.partition(":")
    return f"{kind}:{resolve_root(root) / path}" if colon else kind
