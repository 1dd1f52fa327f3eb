"""What commands print: text from outside is shown as it is, and no message is longer than a screen."""

import errno
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rankmixup.errors import InvalidInput, one_line, require

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console", "lacks_memory", "make_folder", "print_error", "require_writable", "sentence_of", "show_any_name", "status_of"]

_LONGEST_MESSAGE = 1000
_LONGEST_NAME = 200
"""Bytes of a file's name: 255 at most systems, and a temporary name beside it is longer."""
_WRONG_PATHS = {errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP}


def console(*, stderr: bool = False) -> "Console":
    """A terminal on which brackets and colons mean themselves, in tables too: paths and names of models hold them."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def show_any_name() -> None:
    """Have names that are no UTF-8 printed with escapes, which standard output would otherwise refuse."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def print_error(error: BaseException) -> None:
    """One sentence on standard error."""
    text = one_line(sentence_of(error))
    if len(text) > _LONGEST_MESSAGE:
        text = f"{text[: _LONGEST_MESSAGE - 300]} ... {text[-300:]}"
    print(f"error: {text}", file=sys.stderr)


def sentence_of(error: BaseException) -> str:
    """What an error says, with what it was about."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename) if isinstance(error.filename, bytes) else error.filename} cannot be used ({error.strerror})"
    if lacks_memory(error):
        return f"there must be more memory for this ({error})" if str(error) else "there must be more memory for this"
    if isinstance(error, RecursionError):
        return f"what is read must not be nested so deeply ({error})"
    return str(error) or type(error).__name__


def lacks_memory(error: BaseException) -> bool:
    """Whether memory ran out; torch has no class of errors for that on a CPU."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))


def status_of(error: BaseException) -> int:
    """2 where the request named a path that cannot be, 1 where the work failed."""
    return 2 if isinstance(error, OSError) and error.errno in _WRONG_PATHS else 1


def require_writable(*paths: Path | None) -> None:
    """Refuse, before any work, files that could not be written after it."""
    for path in paths:
        if path is not None:
            size = len(os.fsencode(path.name))
            require(size <= _LONGEST_NAME, f"the name of an output must have at most {_LONGEST_NAME} bytes, {path.name[:40]}... has {size}")
            require(path.parent.is_dir(), f"{path} must be in a folder that exists, {path.parent} does not")
            require(os.access(path.parent, os.W_OK), f"{path} must be in a folder that can be written to, {path.parent} cannot")
            require(not path.is_dir(), f"{path} must be a file, it is a folder")


def make_folder(option: str, path: Path) -> None:
    """Make a folder for what is to be written after long work, or refuse it before."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"{option} must be a folder that can be written to, got {path} ({error.strerror})") from error
    require(os.access(path, os.W_OK), f"{option} must be a folder that can be written to, got {path}")
