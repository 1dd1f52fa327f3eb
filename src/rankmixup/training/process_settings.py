"""Settings of the whole process that training changes."""

import contextlib
import ctypes
import sys
from collections.abc import Iterator

import torch

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # from glibc's malloc.h
_NEVER = 2**31 - 1


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
    return bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, _NEVER))
