"""The lock of a run: held by the process that trains it, and forgotten by the system when that process ends."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from rankmixup.errors import InvalidInput, RunBusy

_PATIENCE = 1.0
"""Seconds after which a lock counts as taken: who only looks at the state of a run holds it for a moment."""


@contextlib.contextmanager
def hold_lock(folder: Path) -> Iterator[None]:
    """Keep every other process from training the run in `folder`; processes forked from this one do not hold the lock."""
    lock = _lock(folder)
    try:
        lock.acquire(timeout=_PATIENCE)
    except Timeout:
        raise RunBusy(f"run {folder} must be trained by one process at a time, and another one trains it") from None
    except OSError as error:
        raise InvalidInput(f"run {folder} must be a folder that can be written to and locked ({error.strerror})") from error
    try:
        yield
    finally:
        lock.release()


def is_locked(folder: Path) -> bool:
    """Whether a process trains the run in `folder`."""
    if not (folder / "lock").exists():
        return False
    try:
        with _lock(folder).acquire(timeout=0):
            return False
    except Timeout:
        return True
    except OSError:  # nobody trains a run in a folder that cannot be written to
        return False


def _lock(folder: Path) -> FileLock:
    # Without the system's own locks there is none: a file that stands for one would outlive its process.
    return FileLock(folder / "lock", fallback_to_soft=False)
