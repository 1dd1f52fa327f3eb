"""What the processes of a run agree on, and what they say when one of them is gone."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
from lightning_fabric import Fabric
from torch import distributed

from rankmixup.errors import Interrupted, RankMixupError, WorkFailed

__all__ = ["agree", "ask_first", "gather", "speaking_once"]

T = TypeVar("T")

_ANSWER = timedelta(seconds=5)
"""How long a process has to say that it is still there."""


def agree(fabric: Fabric, numbers: Sequence[int]) -> list[int]:
    """The largest of each number over all processes."""
    if fabric.world_size == 1:
        return list(numbers)
    shared = torch.tensor(numbers, device=fabric.device)
    distributed.all_reduce(shared, distributed.ReduceOp.MAX)
    return shared.tolist()


def gather(fabric: Fabric, value: T) -> list[T]:
    """What every process has."""
    values = [value] * fabric.world_size
    if fabric.world_size > 1:
        distributed.all_gather_object(values, value)
    return values


def ask_first(fabric: Fabric, action: Callable[[], T]) -> T:
    """What `action` gives, or the error that it raises, in the first process: the same in all."""
    answer: Any = None
    if fabric.is_global_zero:
        try:
            answer = action()
        except (RankMixupError, OSError) as error:
            answer = error
    answer = fabric.broadcast(answer)
    if isinstance(answer, Exception):
        raise answer
    return answer


@contextlib.contextmanager
def speaking_once(fabric: Fabric) -> Iterator[None]:
    """Errors leave from one process alone, the others exit with its status; a process that is gone is an error that names it."""
    speaker = 0
    error: RankMixupError | Interrupted | None = None
    if fabric.world_size > 1 and distributed.get_backend() == "gloo":
        # Else lightning-fabric kills this process when another has ended, before it can say a word. A process that waits for a lost
        # one under NCCL is better killed.
        getattr(fabric.strategy.launcher, "procs", []).clear()
    try:
        yield
    except (RankMixupError, Interrupted) as stopped:
        error = stopped
    except RuntimeError as failed:
        gone = _gone(fabric, failed)
        if not gone:
            raise
        speaker = min(set(range(fabric.world_size)) - set(gone))
        which = ", ".join(map(str, gone))
        error = WorkFailed(f"process {which} of {fabric.world_size} (counted from 0) is gone: it ended or cannot be reached")
        error.__cause__ = failed
    if isinstance(error, Interrupted) and fabric.world_size > 1:
        # All are here and leave together: threads of the connection that outlive Python would abort the process.
        distributed.destroy_process_group()
    if error is not None:
        if fabric.global_rank != speaker:
            raise SystemExit(error.exit_status)
        raise error


def _gone(fabric: Fabric, error: RuntimeError) -> list[int]:
    """Processes that do not answer, if `error` says that a message could not be passed on."""
    told = isinstance(error, distributed.DistError) or "gloo" in str(error).lower() or "NCCL" in str(error)
    if fabric.world_size == 1 or not told:
        return []
    try:
        store = distributed.distributed_c10d._get_default_store()
        store.set(f"rankmixup/alive/{fabric.global_rank}", "yes")
        return [rank for rank in range(fabric.world_size) if not _answers(store, rank)]
    except RuntimeError:  # the first process keeps the store
        return [0]


def _answers(store: torch._C._distributed_c10d.Store, rank: int) -> bool:
    try:
        store.wait([f"rankmixup/alive/{rank}"], _ANSWER)
    except distributed.DistStoreError:
        return False
    return True
