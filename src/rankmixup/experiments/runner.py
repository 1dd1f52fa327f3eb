"""Trains many runs, each once; a run that fails does not stop the others."""

import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rankmixup.data import parse_source
from rankmixup.data.base import resolve_root
from rankmixup.errors import InvalidInput, RankMixupError, RunBusy
from rankmixup.experiments.grid import Task, unknown_set_name
from rankmixup.runs import StoredRun
from rankmixup.training import Workplace, train_at
from rankmixup.training.ood import predict_unknown

_PATIENCE = 1.0
"""Seconds that a worker waits after it was given a run that another process is training."""
LOSSES = 3
"""Workers that may die during one task before it fails: one that needs too much memory would go on killing them."""


@dataclass(frozen=True)
class Event:
    """Something that happened to a task."""

    kind: Literal["started", "finished", "failed", "lost", "waiting"]
    """lost: the worker died, and the task is given to another; waiting: another process is training this run."""
    task: Task
    reason: str = ""


def attempt(task: Task, place: Workplace) -> Event:
    """Train or resume a run and predict its unknown samples; "waiting" if another process is training it."""
    try:
        stored = StoredRun.locate(place.runs, task.run)
        if stored.state == "running":  # checked before its data is read
            raise RunBusy("another process trains it")
        train_at(place, task.run)
        root, download, hardware = resolve_root(place.data_root), place.download, place.hardware
        for unknown in task.unknown:
            kind, colon, path = unknown.partition(":")
            source = parse_source(f"{kind}:{root / path}" if colon else kind)
            predict_unknown(stored, source, unknown_set_name(unknown), data_root=root, download=download, hardware=hardware)
    except RunBusy:
        time.sleep(_PATIENCE)
        return Event("waiting", task)
    except Exception as error:  # an error in one run does not stop the others
        return Event("failed", task, str(error) if isinstance(error, RankMixupError) else f"{type(error).__name__}: {error}")
    return Event("finished", task)


def run_tasks(
    tasks: Sequence[Task],
    place: Workplace,
    *,
    on: Literal["local", "ray"] = "local",
    workers: int | None = None,
    address: str | None = None,
) -> Iterator[Event]:
    """Train the runs that are missing, about in the given order, and yield what happens; a failed task does not stop the others.

    Every task is reported finished or failed exactly once. Closing the iterator stops the work, which can be resumed at any time.
    `workers` is the number of processes on this machine, by default one for each GPU or else each core; `address` is that of a Ray cluster.
    """
    # Absolute paths, for processes that were started elsewhere.
    place = dataclasses.replace(place, runs=place.runs.absolute(), data_root=resolve_root(place.data_root).absolute())
    missing = []
    for task in dict.fromkeys(tasks):
        try:
            if task.done(place.runs):
                yield Event("finished", task)
            else:
                missing.append(task)
        except InvalidInput as error:  # a person must look at a damaged run; the others go on
            yield Event("failed", task, str(error))
    if not missing:
        return
    if on == "ray":
        from rankmixup.experiments.ray_runner import on_ray

        yield from on_ray(missing, place, address)
    else:
        from rankmixup.experiments.workers import on_workers

        yield from on_workers(missing, place, workers)
