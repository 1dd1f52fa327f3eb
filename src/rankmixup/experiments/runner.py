"""Several runs at once: one process each, one thread each, as many as there are cores."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import torch

from rankmixup.runs import Run, StoredRun
from rankmixup.training import train

__all__ = ["train_all"]


def train_all(
    todo: Sequence[Run], runs: Path, *, workers: int | None = None, on_done: Callable[[StoredRun], None] = lambda stored: None
) -> list[StoredRun]:
    """Train what is not yet trained, in any order; returns all of them in the order given.

    Networks small enough for this are slower with two threads than with one, and much slower on a busy machine.
    """
    stored = [StoredRun.locate(runs, run) for run in todo]
    missing = [each for each in stored if not each.finished]
    for each in stored:
        if each.finished:
            on_done(each)
    workers = min(workers or os.cpu_count() or 1, len(missing))
    if workers > 0:
        with ProcessPoolExecutor(workers, get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)) as pool:
            futures = {pool.submit(_train, each.run, runs): each for each in missing}
            try:
                for future in as_completed(futures):
                    future.result()
                    on_done(futures[future])
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    return stored


def _train(run: Run, runs: Path) -> None:
    train(run, runs=runs, accelerator="cpu")
