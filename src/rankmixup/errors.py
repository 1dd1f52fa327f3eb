"""Errors: one sentence with the name of the thing, the rule, and the value that broke it."""

import difflib
import importlib
import math
import numbers
import re
import reprlib
from collections.abc import Iterable, Sequence
from typing import Any

_LONGEST = 200
_LONGEST_LIST = 700
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _LONGEST


class RankMixupError(Exception):
    """Base of every error this library raises on purpose."""

    exit_status = 1

    def __str__(self) -> str:
        return one_line(super().__str__())


class InvalidInput(RankMixupError, ValueError):
    """The request was wrong; nothing was changed. The command exits with status 2."""

    exit_status = 2


class RunBusy(InvalidInput):
    """Another process trains this very run."""


class WorkFailed(RankMixupError):
    """The request was right but the work could not be finished. The command exits with status 1."""


class Interrupted(KeyboardInterrupt):
    """A signal stopped the work, which was saved first. Not to be caught with other errors: whoever sent it wants everything to stop."""

    def __init__(self, message: str, exit_status: int = 130):
        super().__init__(message)
        self.exit_status = exit_status


def one_line(text: str) -> str:
    r"""`text` with line breaks, control characters and bytes that are no UTF-8, all of which names of files can hold, escaped.

    >>> one_line("two\nlines")
    'two\\nlines'
    """
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]", lambda found: found[0].encode("unicode_escape").decode(), text)


def require(condition: bool, message: str) -> None:
    """Raise `InvalidInput(message)` unless `condition` holds."""
    if not condition:
        raise InvalidInput(message)


def shown(value: Any) -> str:
    """A value for a message: short, however large it is."""
    if not (hasattr(value, "dtype") and hasattr(value, "ndim")):
        text = _REPR.repr(value)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    if getattr(value, "is_nested", False):  # has no shape, and raises where it is asked for it
        return "nested tensor"
    return f"{type(value).__name__} of shape {list(value.shape)}"


def listed(names: Sequence[str], most: int) -> str:
    """The first `most` of `names` for a message, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def require_number(name: str, value: Any, *, least: float = -math.inf, most: float = math.inf) -> None:
    """Raise `InvalidInput` unless `value` is a finite number from `least` to `most`."""
    try:
        number = None if isinstance(value, (bool, str, bytes)) else float(value)
    except (TypeError, ValueError, RuntimeError):  # RuntimeError: a tensor of several numbers
        number = None
    except OverflowError:
        number = math.inf
    if isinstance(value, int) and abs(value) >= 2**63:  # of whole numbers, torch takes none that is larger
        number = math.inf if value > 0 else -math.inf
    if number is None:
        raise InvalidInput(f"{name} must be a number, got {shown(value)}")
    require(least > -math.inf or not math.isnan(number), f"{name} must be finite, got {shown(value)}")
    rule = f"be at least {least}" if most == math.inf else f"lie in {least}..{most}"
    require(least <= number <= most, f"{name} must {rule}, got {shown(value)}")
    require(math.isfinite(number), f"{name} must be finite, got {shown(value)}")


def require_whole(name: str, value: Any, *, least: float = -math.inf, most: float = math.inf) -> int:
    """`value` as an int; raises `InvalidInput` unless it is a whole number from `least` to `most`."""
    # Not whatever has an index: an array of one number would be passed on as an array.
    number = None if isinstance(value, bool) or not isinstance(value, numbers.Integral) else int(value)
    if number is None:
        raise InvalidInput(f"{name} must be a whole number, got {shown(value)}")
    require(number >= least, f"{name} must be at least {least}, got {shown(value)}")
    require(number <= most, f"{name} must be at most {most}, got {shown(value)}")
    return number


def require_flag(name: str, value: Any) -> None:
    """Raise `InvalidInput` unless `value` is true or false."""
    require(isinstance(value, bool) or type(value).__name__ == "bool", f"{name} must be True or False, got {shown(value)}")  # numpy's too


def require_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise `InvalidInput` unless `value` is one of `choices`."""
    listed = " or ".join(filter(None, [", ".join(map(repr, choices[:-1])), repr(choices[-1])]))
    require(isinstance(value, str) and value in choices, f"{name} must be {listed}, got {shown(value)}")


def import_extra(package: str, purpose: str, extra: str) -> Any:
    """An optional package; `InvalidInput` with the extra to install where it is missing."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise InvalidInput(f"{purpose} needs the package {package}, which is missing: pip install 'rankmixup[{extra}]'") from error


def unknown_name(kind: str, name: str, valid: Iterable[str]) -> InvalidInput:
    """The error for a name that is not among `valid`, with the nearest ones that are."""
    valid = sorted(valid)
    require(isinstance(name, str), f"the name of a {kind} must be a string, got {shown(name)}")
    # Case and separators are what people get wrong first, so they do not count against a match.
    folded = {candidate.lower().replace("_", "-"): candidate for candidate in valid}
    close = difflib.get_close_matches(name.lower().replace("_", "-"), folded, n=3, cutoff=0.5)
    if close:
        hint = "did you mean " + " or ".join(shown(folded[match]) for match in close) + "?"
    elif not valid:
        hint = "there are none"
    else:
        names = ", ".join(valid)  # of files, as long as they like
        hint = (
            f"valid names: {names}"
            if len(valid) <= 100 and len(names) <= _LONGEST_LIST
            else f"none of the {len(valid)} valid names is similar"
        )
    return InvalidInput(f"unknown {kind} {shown(name)}; {hint}")
