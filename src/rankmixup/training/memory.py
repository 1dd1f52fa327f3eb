"""Memory of training on a CPU."""

import ctypes
import sys

__all__ = ["keep_freed_memory"]

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # from glibc's malloc.h
_NEVER = 2**31 - 1


def keep_freed_memory() -> bool:
    """Have the C library keep freed memory for the next step instead of returning it to the system; whether it could be told.

    A training step frees and takes again hundreds of megabytes of activations. glibc gives large blocks back at once, and the
    system then clears every page anew: a sixth of a RankMixup step, and twice the time of a large batch. The process's
    memory stays at its peak instead. Nothing happens where the C library is another.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, _NEVER))
