"""Trains runs on a Ray cluster, each as one of its tasks."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

from rankmixup.errors import InvalidInput, WorkFailed
from rankmixup.experiments.grid import Task
from rankmixup.experiments.runner import LOSSES, Event, attempt
from rankmixup.training import Workplace


def on_ray(tasks: Sequence[Task], place: Workplace, address: str | None) -> Iterator[Event]:
    """Run tasks on the cluster at `address`, or on one that is started on this machine and stopped at the end.

    Each run has a core and, where the cluster has any, a GPU. `place` must mean the same on every machine.
    """
    try:
        import ray
    except ImportError as error:
        raise InvalidInput("--on ray needs Ray: pip install 'rankmixup[ray]'") from error
    started = not ray.is_initialized()
    if started:
        try:
            ray.init(address=address, include_dashboard=False, log_to_driver=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise WorkFailed(f"a Ray cluster must be there at {address or 'this machine'} ({' '.join(str(error).split())})") from error
    try:
        gpu = place.hardware.accelerator not in ("cpu", "mps") and ray.cluster_resources().get("GPU", 0) >= 1
        plugins = os.environ.get("RANKMIXUP_PLUGINS")  # a cluster that is there already does not inherit it
        settings: dict[str, Any] = {"runtime_env": {"env_vars": {"RANKMIXUP_PLUGINS": plugins}}} if plugins else {}
        remote: Any = ray.remote(num_cpus=1, num_gpus=int(gpu), max_retries=LOSSES - 1, max_calls=0, **settings)(_attempt)
        running = {remote.remote(task, place): task for task in tasks}
        yield from (Event("started", task) for task in tasks)
        while running:
            (ready,), _ = ray.wait(list(running), num_returns=1)
            task = running.pop(ready)
            try:
                event = ray.get(ready)
            except ray.exceptions.RayError as error:
                event = Event("failed", task, f"it was lost {LOSSES} times ({' '.join(str(error).split())[:200]})")
            if event.kind == "waiting":
                running[remote.remote(task, place)] = task
            yield event
    finally:
        if started:
            ray.shutdown()


def _attempt(task: Task, place: Workplace) -> Event:
    import torch

    if place.hardware.accelerator == "cpu":
        torch.set_num_threads(1)
    return attempt(task, place)
