"""Arguments into dataclasses, by tyro; errors are one sentence."""

import contextlib
import io
import itertools
import re
from collections.abc import Sequence
from typing import TypeVar

from rankmixup.errors import InvalidInput, require

T = TypeVar("T")


def parse(command: type[T], argv: Sequence[str], *, prog: str, description: str | None = None) -> T:
    """The dataclass `command` made from `argv`; `--help` prints and exits."""
    import tyro  # here, since `rankmixup --help` needs none of it

    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            return tyro.cli(command, args=argv, prog=prog, description=description)
    except SystemExit as stop:
        if not stop.code:
            raise
        # tyro takes every ValueError for its own; those of the dataclasses say all there is to say.
        own: BaseException | None = stop
        while own is not None and not isinstance(own, InvalidInput):
            own = own.__cause__ or own.__context__
        raise own or InvalidInput(f"{_sentence(printed.getvalue())}; see '{prog} --help'") from None


def take_flag(argv: Sequence[str], flag: str) -> tuple[list[str], list[str]]:
    """The values of every `flag VALUE` and `flag=VALUE`, and the arguments without them.

    >>> take_flag(["--mixer", "mixup", "--seed", "1", "--mixer=cutmix"], "--mixer")
    (['mixup', 'cutmix'], ['--seed', '1'])
    """
    values, rest, arguments = [], [], iter(argv)
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name != flag:
            rest.append(argument)
            continue
        if not equals:
            value = next(arguments, "")
        require(bool(value), f"{flag} must be followed by a value, got nothing")
        values.append(value)
    return values, rest


def _sentence(box: str) -> str:
    """What tyro's frame says: the lines between its title and its first rule."""
    lines = [re.sub(r"[│╭╮╰╯]", " ", line).strip() for line in box.splitlines()]
    below = itertools.dropwhile(_is_rule, [line for line in lines if line][1:])
    return " ".join(itertools.takewhile(lambda line: not _is_rule(line), below)).rstrip(".")


def _is_rule(line: str) -> bool:
    return set(line) <= set("-─")
