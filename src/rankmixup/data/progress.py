"""A bar for work on files that takes minutes."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from rankmixup.errors import one_line


@contextlib.contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, where that is a terminal, and the function that moves it on."""
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(escape(one_line(title)), total=total)
        yield lambda steps: bar.advance(task, steps)
