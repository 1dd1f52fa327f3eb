"""One generated input: how it is made again, how it is tried, and what counts as a finding."""

import contextlib
import resource
import signal
import traceback
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from rankmixup.errors import RankMixupError

__all__ = ["Area", "Difference", "Outcome", "attempt", "require_one_sentence"]

Verdict = Literal["agrees", "answered", "refused"]
"""The answer is the oracle's; there is an answer and no oracle for it; the input was refused in one sentence."""

_SECONDS = 60
"""An input that takes longer hangs."""
_MEMORY = 2**31
"""An input that takes more bytes than this, none of which is larger than a few megabytes, is a bomb."""
_SENTENCE = 1000
"""Characters of the longest refusal, as the command cuts them: a few names of files may be long."""


class Difference(AssertionError):
    """An answer that is not the right one."""


class _Hang(BaseException):
    """Not an Exception, so that nothing under test catches it."""


@dataclass(frozen=True)
class Area:
    """Inputs of one kind."""

    name: str
    cases: int
    """How many a full study tries."""
    attempt: Callable[[np.random.Generator, Path], Verdict]
    """Makes one input in an empty folder, tries it, and raises `Difference` for a wrong answer."""


@dataclass(frozen=True)
class Outcome:
    """What came of one input; a finding has a `reason`."""

    kind: Literal["agrees", "answered", "refused", "difference", "traceback", "hang", "memory"]
    reason: str = ""


def attempt(area: Area, seed: int, index: int, folder: Path, *, debug: bool = False) -> Outcome:
    """Try input `index` of an area; with `debug`, let its traceback through."""
    rng = np.random.default_rng([seed, zlib.crc32(area.name.encode()), index])
    before = _peak()
    try:
        with _deadline():
            kind = area.attempt(rng, folder)
    except RankMixupError as error:
        return _refused(str(error))
    except Difference as error:
        return Outcome("difference", str(error))
    except _Hang:
        return Outcome("hang", f"no answer within {_SECONDS} s")
    except Exception as error:  # what this study looks for
        if debug:
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome("traceback", f"{type(error).__name__}: {str(error)[:200]} ({Path(place.filename).name}:{place.lineno})")
    grown = _peak() - before
    return Outcome("memory", f"{grown / 2**30:.1f} GiB") if grown > _MEMORY else Outcome(kind)


def require_one_sentence(message: str) -> None:
    """Refuse a refusal that nobody could read."""
    if not message or len(message) > _SENTENCE or "\n" in message or "Traceback" in message:
        raise Difference(f"a refusal must be one sentence, got {len(message)} characters: {message[:200]!r}")


def _refused(message: str) -> Outcome:
    try:
        require_one_sentence(message)
    except Difference as error:
        return Outcome("difference", str(error))
    return Outcome("refused")


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextlib.contextmanager
def _deadline() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise _Hang

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
