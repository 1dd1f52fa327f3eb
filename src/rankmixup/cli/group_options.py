"""Options of groups of samples."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from rankmixup.cli.options import OptionalPath, Sampling
from rankmixup.errors import one_line, require

if TYPE_CHECKING:
    from rankmixup.evaluation.group_labels import Values


@dataclass(kw_only=True)
class Grouping(Sampling):
    """Options of commands that evaluate groups of samples."""

    group: tyro.conf.UseAppendAction[
        Annotated[tuple[str, ...], tyro.conf.arg(metavar="[NAME=]FILE|COLUMN", help_behavior_hint="(optional, repeatable)")]
    ] = ()
    """The group of each sample, such as its site: the name of another array or column of the file of scores, or a file: npz, csv
    (FILE:COLUMN if it has several columns) or text with one value in each line. Every metric is computed for each group, and it is
    tested whether groups differ."""

    @property
    def other_columns(self) -> tuple[str, ...]:
        """Columns of score files that are groups."""
        return tuple(column for _, file, column in map(_parsed, self.group) if file is None and column is not None)

    @property
    def group_files(self) -> tuple[Path, ...]:
        """Files of groups."""
        return tuple(file for _, file, _ in map(_parsed, self.group) if file is not None)

    def read_groups(self, scores: Path | None) -> "dict[str, Values]":
        """Values of each grouping by its name; `scores` is the file of scores, if there is one."""
        from rankmixup.evaluation.group_files import SUFFIXES, read_groups

        found: dict[str, Values] = {}
        for argument in self.group:
            name, file, column = _parsed(argument)
            require(
                bool(name) and column != "",
                f"--group must be FILE or COLUMN, optionally with NAME= before it, got {argument!r}",
            )
            require(name not in found, f"--group must give each grouping its own name (NAME=...), got {name!r} twice")
            if file is None:
                text = str(column)
                is_path = os.sep in text or Path(text).suffix.lower() in SUFFIXES
                require(not is_path, f"--group must be a file that exists or a column of the file of scores, got {text!r}")
                require(scores is not None, f"--group must be a file, since only a file of scores has columns, got {text!r}")
            found[name] = read_groups(file or scores, column)  # type: ignore[arg-type]
        return found


@dataclass(kw_only=True)
class GroupOptions(Grouping):
    """Groups, and files for what is found of them."""

    group_csv: OptionalPath = None
    """Write every metric of every group as csv."""
    class_csv: OptionalPath = None
    """Write the table of classes as csv."""


def _parsed(argument: str) -> tuple[str, Path | None, str | None]:
    """Name, file and column of an argument; without a file it is a column of the file of scores."""
    name, separator, rest = argument.partition("=")
    given = bool(separator) and not Path(argument).exists()
    text = rest if given else argument
    before, colon, column = text.rpartition(":")
    if text and Path(text).exists():
        file, chosen, own = Path(text), None, Path(text).stem or text
    elif colon and Path(before).is_file():
        file, chosen, own = Path(before), column, column
    else:
        file, chosen, own = None, text, text
    return one_line(name if given else own), file, chosen
