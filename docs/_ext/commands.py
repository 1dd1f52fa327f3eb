"""The page of the command line: the help of every command, as it prints it, and examples from cards.toml."""

import contextlib
import io
import os
import re
import textwrap

from cards import SOURCE, TEXTS
from generated import write_page

from rankmixup.cli.main import COMMANDS, main

WIDTH = 100
INTRODUCTION = """# Command line

`rankmixup` and `python -m rankmixup` are the same command. `--json` prints one JSON object on standard output and nothing else there.
The exit status is 0 if the work is done, 1 if it failed, and 2 if the request was wrong; a reader that stops early, as in
`rankmixup list methods | head -3`, does not change it. Errors are one sentence; `--debug` shows the traceback. Warnings are lines that
begin with `warning:` on standard error.
"""


def help_of(*arguments):
    """What `rankmixup ARGUMENTS --help` prints, without colour."""
    printed, before = io.StringIO(), dict(os.environ)
    os.environ |= {"COLUMNS": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"}
    try:
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            main([*arguments, "--help"])
    finally:
        os.environ.clear()
        os.environ.update(before)
    return "\n".join(wrapped(line).rstrip() for line in printed.getvalue().splitlines())


def wrapped(line):
    """A line of help within the width; what follows a name and two spaces keeps its column. Descriptions come unwrapped."""
    column = re.match(r" +\S+(?: \S+)? {2,}", line)
    return line if len(line) <= WIDTH else textwrap.fill(line, WIDTH, subsequent_indent=" " * (column.end() if column else 0))


def examples_of(command):
    """The example lines of a command; a missing entry is refused with what to write where."""
    if not TEXTS["commands"].get(command):
        raise LookupError(f"command {command!r} has no examples: write some below [commands] in {SOURCE}")
    return TEXTS["commands"][command].strip()


def write_commands(app):
    parts = [INTRODUCTION, f"```text\n{help_of()}\n```\n"]
    parts += [f"## {command}\n\n```bash\n{examples_of(command)}\n```\n\n```text\n{help_of(command)}\n```\n" for command in COMMANDS]
    write_page("reference/command-line.md", SOURCE, "\n".join(parts))


def setup(app):
    app.connect("builder-inited", write_commands)
    return {"parallel_read_safe": True}
