"""A bar for work on files that takes minutes."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import Progress

__all__ = ["progress"]


@contextlib.contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, where that is a terminal, and the function that moves it on."""
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda steps: bar.advance(task, steps)
