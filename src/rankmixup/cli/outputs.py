"""Options of commands that write their result to files and fail a pipeline."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from rankmixup.cli.options import OptionalPath
from rankmixup.cli.output import require_suffix, require_writable

if TYPE_CHECKING:
    from rankmixup.evaluation import Comparison, Evaluation
    from rankmixup.evaluation.results import FileKind

_SUFFIXES: "dict[FileKind, tuple[str, ...]]" = {"html": (".html", ".htm"), "markdown": (".md", ".markdown"), "latex": (".tex", ".latex")}
Conditions = tyro.conf.UseAppendAction[
    Annotated[tuple[str, ...], tyro.conf.arg(metavar="CONDITION", help_behavior_hint="(optional, repeatable)")]
]


@dataclass(kw_only=True)
class Outputs:
    """Files to write a result to."""

    html: OptionalPath = None
    """Write a report as one HTML file."""
    markdown: OptionalPath = None
    """Write a compact table as Markdown, for a pull request."""
    latex: OptionalPath = None
    """Write the table as LaTeX."""
    csv: OptionalPath = None
    """Write the table as csv."""

    def check_outputs(self, *inputs: Path | str | None) -> None:
        """Refuse files that cannot be written or that are read, before any work is done."""
        require_writable(*self._paths().values(), inputs=inputs)
        for kind, path in self._paths().items():
            require_suffix(path, *_SUFFIXES.get(kind, (".csv",)))

    def write(self, result: "Evaluation | Comparison") -> None:
        """Write each file that was asked for."""
        for kind, path in self._paths().items():
            result.save(path, kind)

    def _paths(self) -> "dict[FileKind, Path]":
        """The files that were asked for; a command has options for some kinds only."""
        kinds: tuple[FileKind, ...] = ("html", "markdown", "latex", "csv", "group-csv", "class-csv")
        return {kind: path for kind in kinds if (path := getattr(self, kind.replace("-", "_"), None)) is not None}
