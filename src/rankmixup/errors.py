"""Errors: one sentence with the name of the thing, the rule, and the value that broke it."""

import difflib
from collections.abc import Iterable

__all__ = ["Interrupted", "InvalidInput", "RankMixupError", "RunBusy", "WorkFailed", "one_line", "require", "unknown_name"]

_LONGEST = 2000
"""Characters of a message: names and values in it come from anywhere."""


def one_line(text: str) -> str:
    r"""`text` as it can be printed anywhere: control characters and bytes that are no UTF-8 are escaped, long texts cut in the middle.

    >>> print(one_line("a\nb"))
    a\nb
    """
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


class RankMixupError(Exception):
    """Base of every error this library raises on purpose; its message is one line."""

    exit_status = 1

    def __init__(self, message: str):
        super().__init__(one_line(message))


class InvalidInput(RankMixupError):
    """The request was wrong; nothing was changed. The command exits with status 2.

    Not a ValueError: tyro takes those for its own and frames them in a box.
    """

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


def require(condition: bool, message: str) -> None:
    """Raise `InvalidInput(message)` unless `condition` holds."""
    if not condition:
        raise InvalidInput(message)


def unknown_name(kind: str, name: str, valid: Iterable[str]) -> InvalidInput:
    """The error for a name that is not among `valid`, with the nearest ones that are."""
    valid = sorted(valid)
    # Case and separators are what people get wrong first, so they do not count against a match.
    folded = {candidate.lower().replace("_", "-"): candidate for candidate in valid}
    close = difflib.get_close_matches(name.lower().replace("_", "-"), folded, n=3, cutoff=0.5)
    if close:
        hint = "did you mean " + " or ".join(repr(folded[match]) for match in close) + "?"
    else:
        hint = "valid names: " + ", ".join(valid) if len(valid) <= 100 else f"none of {len(valid)} valid names is near it"
    return InvalidInput(f"unknown {kind} {name!r}; {hint}")
