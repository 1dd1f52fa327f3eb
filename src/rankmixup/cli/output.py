"""What commands print. Text from outside is shown as it is; no message is longer than a screen."""

import errno
import io
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankmixup.errors import InvalidInput, RankMixupError, one_line, require

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


_LONGEST_MESSAGE = 1000
_LONGEST_NAME = 200
"""Bytes of a file name: most systems allow 255, and the temporary file beside it has a longer name."""
_WRONG_PATHS = {errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP}


def console(*, stderr: bool = False) -> "Console":
    """A terminal that prints brackets and colons as they are, in tables too: paths and model names contain them."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def answer(as_json: bool, data: Callable[[], Any], view: "Callable[[], RenderableType]") -> None:
    """Print a result: as one JSON object for programs, or as a table for people."""
    if as_json:
        print(json.dumps(data(), allow_nan=False))
    else:
        console().print(view())


@contextmanager
def print_warnings() -> Iterator[None]:
    """Print the warnings of the block as sentences on standard error when they come, each once and without the place in the code."""
    said: set[str] = set()

    def say(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in said:
            said.add(str(message))
            print(f"warning: {one_line(str(message))}", file=sys.stderr)

    with warnings.catch_warnings():
        if not sys.warnoptions:  # what Python was told with -W or PYTHONWARNINGS
            warnings.simplefilter("always", UserWarning)
        warnings.showwarning = say
        yield


@contextmanager
def readers_may_leave() -> Iterator[None]:
    """Let work go on, and end with its own exit status, if nobody reads standard output any more, as `head` after its lines."""
    try:
        number = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):  # replaced by something that is no file
        number = -1
    if number < 0 or sys.stdout.isatty():
        yield
        return
    sys.stdout.flush()
    pipe = io.BufferedWriter(_Pipe(number, "w", closefd=False))
    with io.TextIOWrapper(pipe, sys.stdout.encoding, sys.stdout.errors) as out, redirect_stdout(out):
        yield


class _Pipe(io.FileIO):
    """A file that takes what nobody reads."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            return len(data)


def print_error(error: Exception) -> None:
    """Print one sentence on standard error."""
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{os.fsdecode(error.filename) if isinstance(error.filename, bytes) else error.filename} cannot be used ({error.strerror})"
    elif _is_out_of_memory(error):
        text = f"out of memory ({error})" if str(error) else "out of memory"
    elif isinstance(error, RecursionError):
        text = f"the input is nested too deeply ({error})"
    text = one_line(text)
    if len(text) > _LONGEST_MESSAGE:
        text = f"{text[: _LONGEST_MESSAGE - 300]} ... {text[-300:]}"
    print(f"error: {text}", file=sys.stderr)


def status_of(error: Exception) -> int | None:
    """Exit status of an error of this library, of files or of the machine; None for any other, which is a bug."""
    if isinstance(error, RankMixupError):
        return error.exit_status
    if isinstance(error, OSError):
        return 2 if error.errno in _WRONG_PATHS else 1
    return 1 if isinstance(error, (RecursionError, UnicodeError)) or _is_out_of_memory(error) else None


def _is_out_of_memory(error: Exception) -> bool:
    # On a CPU, torch raises a plain RuntimeError.
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))


def require_writable(*paths: Path | None, inputs: Iterable[Path | str | None] = ()) -> None:
    """Refuse output files that cannot be written, or that would replace an input, each other or a file of a run, before any work."""
    read = [Path(each) for each in inputs if each is not None]
    given = [path for path in paths if path is not None]
    for place, path in enumerate(given):
        require(not any(_same_file(path, each) for each in read), f"{path} must be a new file for the output, it is one of the inputs")
        twice = any(_same_file(path, each) for each in given[:place])
        require(not twice, f"each output must have a file of its own, got {path} twice")
        size = len(os.fsencode(path.name))
        require(size <= _LONGEST_NAME, f"the name of an output must have at most {_LONGEST_NAME} bytes, {path.name[:40]}... has {size}")
        require(path.parent.is_dir(), f"{path} must be in a folder that exists, {path.parent} does not")
        require(os.access(path.parent, os.W_OK), f"{path} must be in a folder that can be written to, {path.parent} cannot")
        require(not path.is_dir(), f"{path} must be a file, it is a folder")
        owner = _owner(path)
        require(owner is None, f"{path} must be a new file for the output, it is one of the files of {owner}")


def require_suffix(path: Path | None, *suffixes: str) -> None:
    """Refuse a file whose name says that it holds something else; a name without a suffix, such as /dev/stdout, says nothing."""
    fine = path is None or path.suffix.lower() in ("", *suffixes)
    require(fine, f"{path} must end in {' or '.join(suffixes)}, which is what it will hold")


def _owner(path: Path) -> Path | None:
    """The run or the exported folder that has the file at `path` for its own, or will have it."""
    from rankmixup.deploy.folder import own_files
    from rankmixup.runs.store import OWN_PARTS

    for place in (path.absolute(), path.resolve()):
        for folder in place.parents:
            part = place.relative_to(folder).parts[0]
            if (part in OWN_PARTS and (folder / "run.json").is_file()) or part in own_files(folder):
                return folder.resolve()
    return None


def _same_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, which need not exist; devices such as /dev/null keep nothing."""
    try:
        return one.resolve() == other.resolve() and (one.is_file() or not one.exists())
    except (OSError, RuntimeError, ValueError):  # not a path at all, which is refused where it is used
        return False


def make_folder(option: str, path: Path) -> None:
    """Create the folder for results, or refuse it, before any work is done."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"{option} must be a folder that can be written to, got {path} ({error.strerror})") from error
    require(os.access(path, os.W_OK), f"{option} must be a folder that can be written to, got {path}")
