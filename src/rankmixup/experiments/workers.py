"""Trains runs on processes of this machine; a run whose process dies is resumed by another."""

import contextlib
import multiprocessing
import os
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait

import torch

from rankmixup.errors import Interrupted
from rankmixup.experiments.grid import Task
from rankmixup.experiments.runner import LOSSES, Event, attempt
from rankmixup.training import Workplace

_GRACE = 30.0
"""Seconds in which a process may save its run."""

# Not forked: a copy of a process that has used torch's threads or a GPU is not fit for use.
_context = multiprocessing.get_context("spawn")


def on_workers(tasks: Sequence[Task], place: Workplace, number: int | None) -> Iterator[Event]:
    """Run tasks on `number` processes, by default one for each GPU or else each core."""
    gpus = [] if place.hardware.accelerator in ("cpu", "mps") else visible_gpus()
    number = min(number or len(gpus) or os.cpu_count() or 1, len(tasks))
    todo, losses = deque(tasks), Counter[Task]()
    workers = [_Worker(place, gpus[slot % len(gpus)] if gpus else None) for slot in range(number)]
    try:
        while todo or any(worker.task for worker in workers):
            for worker in workers:
                if todo and worker.task is None:
                    worker.task = todo.popleft()
                    with contextlib.suppress(BrokenPipeError):  # of a dead process, which `receive` reports as lost
                        worker.connection.send(worker.task)
                    yield Event("started", worker.task)
            ready = wait([worker.connection for worker in workers if worker.task])
            for slot, worker in enumerate(workers):
                if worker.connection not in ready:
                    continue
                event = worker.receive()
                if event.kind == "lost":
                    workers[slot] = _Worker(place, worker.gpu)
                    losses[event.task] += 1
                    if losses[event.task] < LOSSES:
                        todo.appendleft(event.task)
                    else:
                        reason = f"its process was killed {LOSSES} times, perhaps because it ran out of memory"
                        event = Event("failed", event.task, reason)
                elif event.kind == "waiting":
                    todo.append(event.task)
                yield event
    finally:
        for worker in workers:
            worker.process.terminate()  # it saves its run first
        for worker in workers:
            worker.close()


def visible_gpus() -> list[str]:
    """What CUDA_VISIBLE_DEVICES must be for each of the GPUs that this process may use."""
    there, listed = torch.cuda.device_count(), os.environ.get("CUDA_VISIBLE_DEVICES")
    # CUDA takes the list up to its first entry that is no GPU, such as -1.
    return listed.split(",")[:there] if listed else [str(number) for number in range(there)]


class _Worker:
    """A process, its task and the connection to it."""

    def __init__(self, place: Workplace, gpu: str | None):
        self.gpu = gpu
        self.task: Task | None = None
        self.connection, theirs = _context.Pipe()
        self.process = _context.Process(target=_serve, args=(theirs, place, gpu))
        self.process.start()
        theirs.close()  # so that its end is seen here

    def receive(self) -> Event:
        """What happened to its task; "lost" if the process died."""
        assert self.task is not None
        task, self.task = self.task, None
        try:
            return self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.close()
            return Event("lost", task)

    def close(self) -> None:
        self.process.join(_GRACE)
        self.process.kill()
        self.process.join()
        self.connection.close()


def _serve(connection: Connection, place: Workplace, gpu: str | None) -> None:
    # Ctrl-C reaches all processes of a terminal's group; the parent decides, and terminates this one, which saves its run.
    if hasattr(os, "setpgrp"):  # not on Windows
        os.setpgrp()
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    # Networks small enough for a CPU are slower with two threads than with one, and much slower on a busy machine.
    torch.set_num_threads(1)
    while True:
        try:
            task: Task = connection.recv()
        except EOFError:
            return
        try:
            connection.send(attempt(task, place))
        except Interrupted:
            return  # the run is saved, and the parent sees that this process is gone


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
