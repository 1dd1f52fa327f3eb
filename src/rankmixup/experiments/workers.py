"""Processes of this machine that train runs, one each at a time, and can be lost without loss."""

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
from rankmixup.experiments.runner import Event, Outcome, attempt
from rankmixup.training import Workplace

LOSSES = 3
"""Workers that may die over one task before it is given up: one that needs too much memory would go on killing them."""

_GRACE = 30.0
"""Seconds in which a process may save its run."""

# Not forked: a copy of a process that has used torch's threads or a GPU is not fit for use.
_context = multiprocessing.get_context("spawn")


def on_workers(tasks: Sequence[Task], place: Workplace, number: int | None) -> Iterator[Event]:
    """Carry out tasks on as many processes as there are GPUs, or else cores, or on `number` of them."""
    gpus = [] if place.hardware.accelerator in ("cpu", "mps") else visible_gpus()
    number = min(number or len(gpus) or os.cpu_count() or 1, len(tasks))
    todo, losses = deque(tasks), Counter[Task]()
    workers = [_Worker(place, gpus[slot % len(gpus)] if gpus else None) for slot in range(number)]
    try:
        while todo or any(worker.task for worker in workers):
            for worker in workers:
                if todo and worker.task is None:
                    worker.give(todo.popleft())
                    yield Event("started", worker.given)
            ready = wait([worker.connection for worker in workers if worker.task])
            for slot, worker in enumerate(workers):
                if worker.connection not in ready:
                    continue
                task, outcome = worker.given, worker.take()
                if outcome is None:
                    losses[task] += 1
                    workers[slot] = _Worker(place, worker.gpu)
                    if losses[task] < LOSSES:
                        todo.appendleft(task)
                        yield Event("lost", task)
                    else:
                        yield Event("failed", task, f"its process was killed {LOSSES} times, perhaps because it ran out of memory")
                elif outcome.kind == "busy":
                    todo.append(task)
                    yield Event("waiting", task)
                else:
                    yield Event(outcome.kind, task, outcome.reason)
    finally:
        for worker in workers:
            worker.ask_to_end()
        for worker in workers:
            worker.end()


def visible_gpus() -> list[str]:
    """What CUDA_VISIBLE_DEVICES must be for each of the GPUs that this process may use."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    return listed.split(",") if listed else [str(number) for number in range(torch.cuda.device_count())]


class _Worker:
    """A process, the task it has, and the line to it."""

    def __init__(self, place: Workplace, gpu: str | None):
        self.gpu = gpu
        self.task: Task | None = None
        self.connection, theirs = _context.Pipe()
        self.process = _context.Process(target=_serve, args=(theirs, place, gpu))
        self.process.start()
        theirs.close()  # so that its end is seen here

    @property
    def given(self) -> Task:
        assert self.task is not None
        return self.task

    def give(self, task: Task) -> None:
        self.task = task
        with contextlib.suppress(BrokenPipeError):  # of a dead process, which `take` will find
            self.connection.send(task)

    def take(self) -> Outcome | None:
        """What came of its task; None if the process died over it."""
        self.task = None
        try:
            return self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.end()
            return None

    def ask_to_end(self) -> None:
        """Have it save what it is at."""
        self.process.terminate()

    def end(self) -> None:
        self.process.join(_GRACE)
        self.process.kill()
        self.process.join()
        self.connection.close()


def _serve(connection: Connection, place: Workplace, gpu: str | None) -> None:
    # Ctrl-C reaches all processes of a terminal's group; the first one decides, and asks this one to save its run.
    os.setpgrp()
    threading.Thread(target=_end_with_parent, daemon=True).start()
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
            return  # saved; whoever asked for it knows, and the others see that this process is gone


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
