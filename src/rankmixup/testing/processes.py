"""Two processes that talk to each other, as in distributed training."""

import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import distributed

T = TypeVar("T")


def two_processes(function: Callable[..., T], *args: Any) -> tuple[T, T]:
    """`function(rank, *args)` in two fresh processes joined by gloo; gives back both results or raises the first error.

    The function must live in a module that the processes can import. Let it return plain data: a tensor would be shared
    with a process that has ended.
    """
    # A file, not a port, for the processes to meet at: nobody else can take it.
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        meeting = (Path(folder) / "store").as_uri()
        futures = [pool.submit(_joined, rank, meeting, function, args) for rank in range(2)]
        for future in as_completed(futures):
            future.result()  # In order of completion: the other's error only says that this one has left.
        return futures[0].result(), futures[1].result()


def _joined(rank: int, meeting: str, function: Callable[..., T], args: tuple[Any, ...]) -> T:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2, timeout=timedelta(minutes=1))
    try:
        return function(rank, *args)
    finally:
        distributed.destroy_process_group()
