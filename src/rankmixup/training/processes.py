"""The processes of a run: values that they share, errors that one of them reports for all, and settings that training changes."""

import atexit
import contextlib
import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
from lightning_fabric import Fabric
from torch import distributed

from rankmixup.errors import Interrupted, RankMixupError, WorkFailed

T = TypeVar("T")

_TIMEOUT = timedelta(seconds=5)
"""How long a process has to say that it is still there."""
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # from glibc's malloc.h


def maximum(fabric: Fabric, numbers: Sequence[int]) -> list[int]:
    """The largest of each number over all processes."""
    if fabric.world_size == 1:
        return list(numbers)
    shared = torch.tensor(numbers, device=fabric.device)
    distributed.all_reduce(shared, distributed.ReduceOp.MAX)
    return shared.tolist()


def gather(fabric: Fabric, value: T) -> list[T]:
    """The value of every process."""
    values = [value] * fabric.world_size
    if fabric.world_size > 1:
        distributed.all_gather_object(values, value)
    return values


def on_first_process(fabric: Fabric, action: Callable[[], T]) -> T:
    """Call `action` in the first process; all processes return its value or raise its error."""
    value: Any = None
    if fabric.is_global_zero:
        try:
            value = action()
        except (RankMixupError, OSError) as error:
            value = error
    value = fabric.broadcast(value)
    if isinstance(value, Exception):
        raise value
    return value


@contextlib.contextmanager
def raise_from_one_process(fabric: Fabric) -> Iterator[None]:
    """Raise an error in one process alone, the others exit with its status; a process that is lost is an error that names it."""
    reporter = 0
    error: RankMixupError | Interrupted | None = None
    if fabric.world_size > 1 and distributed.get_backend() == "gloo":
        # Else lightning-fabric kills this process when another has ended, before it can report the error. A process that waits for a lost
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
        reporter = min(set(range(fabric.world_size)) - set(gone))
        which = ", ".join(map(str, gone))
        error = WorkFailed(f"process {which} of {fabric.world_size} (counted from 0) is gone: it ended or cannot be reached")
        error.__cause__ = failed
    if isinstance(error, Interrupted) and fabric.world_size > 1:
        # All are here and leave together: threads of the connection that outlive Python would abort the process.
        distributed.destroy_process_group()
    if error is not None:
        if fabric.global_rank != reporter:
            raise SystemExit(error.exit_status)
        raise error
    if fabric.world_size > 1:
        atexit.register(_leave)


def _leave() -> None:
    """Close the connection before Python ends: threads of it that outlive Python would abort a process that has done its work."""
    if distributed.is_initialized():
        distributed.destroy_process_group()


def _gone(fabric: Fabric, error: RuntimeError) -> list[int]:
    """Processes that do not answer, if `error` says that a message could not be sent."""
    failed = isinstance(error, distributed.DistError) or "gloo" in str(error).lower() or "NCCL" in str(error)
    if fabric.world_size == 1 or not failed:
        return []
    gone = set(range(fabric.world_size))
    try:
        store = distributed.distributed_c10d._get_default_store()
        store.set(f"rankmixup/alive/{fabric.global_rank}", "yes")
        for rank in range(fabric.world_size):
            with contextlib.suppress(distributed.DistStoreError):
                store.wait([f"rankmixup/alive/{rank}"], _TIMEOUT)
                gone.remove(rank)
    except RuntimeError:  # the first process keeps the store
        return [0]
    return sorted(gone)


@contextlib.contextmanager
def settings_restored() -> Iterator[None]:
    """Restore at the end what training and lightning-fabric may change in torch: precision, cuDNN's flags, threads."""
    precision, threads = torch.get_float32_matmul_precision(), torch.get_num_threads()
    flags = {name: getattr(torch.backends.cudnn, name) for name in ("allow_tf32", "benchmark", "deterministic")}
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        for name, value in flags.items():
            setattr(torch.backends.cudnn, name, value)
        torch.set_num_threads(threads)


def keep_freed_memory() -> bool:
    """Have the C library keep freed memory for the next step instead of returning it to the system.

    A training step frees and allocates hundreds of megabytes of activations. glibc returns large blocks at once, and the system then
    clears every page again: a sixth of a RankMixup step, and twice the time of a large batch. Instead, the memory of the process stays
    at its peak.

    Returns:
        Whether the C library is glibc and has accepted the setting.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
