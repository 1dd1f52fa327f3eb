"""Tables as text for other programs: LaTeX (booktabs), CSV and Markdown. Cells may come from anywhere, so each writer escapes them."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from rankmixup.errors import InvalidInput, require, require_choice
from rankmixup.files import write_atomic

Cell = str | int | float | None
Result = TypeVar("Result")

LATEX_ESCAPES = (
    {letter: f"\\{letter}" for letter in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}"}
    | {"|": r"\textbar{}", '"': "''"}
    # After the \\ of the row before, these would be read as its arguments.
    | {"[": "{[}", "]": "{]}", "*": "{*}"}
    | {"λ": r"$\lambda$", "±": r"$\pm$", "\u2212": "$-$", "≤": r"$\leq$", "≥": r"$\geq$", "\u2013": "--", "…": r"\ldots{}"}
    | {"\u03b1": r"$\alpha$", "\u03c1": r"$\rho$"}
)
MARKDOWN_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"} | {letter: f"\\{letter}" for letter in "\\`*_[]|~$"}


class Bold(str):
    """A cell in bold."""


_NUMBER = re.compile(r"<?[-+\u2212]?\.?\d")
_FORMULA = re.compile(r"[=+\-@]")
_PLAIN_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


@dataclass(frozen=True)
class DataTable:
    """Column titles and rows of text and numbers; what is missing is None."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            require(len(row) == len(self.columns), f"a row must have {len(self.columns)} cells, one for each column, got {len(row)}")

    @cached_property
    def numeric(self) -> list[bool]:
        """For each column, whether all its cells are numbers or begin with one."""
        shown = [[_text(row[column]) for row in self.rows] for column in range(len(self.columns))]
        return [any(cells) and all(_NUMBER.match(cell) for cell in cells if cell) for cells in shown]


def _text(cell: Cell) -> str:
    """One line of text; six digits of a number are more than any table here can vouch for."""
    if cell is None:
        return ""
    return format(cell, ".6g") if isinstance(cell, float) else " ".join(str(cell).split())


def escape(text: str, escapes: dict[str, str]) -> str:
    """`text` with each letter replaced that `escapes` names."""
    return "".join(escapes.get(letter, letter) for letter in text)


def _lines(table: DataTable, escapes: dict[str, str], separator: str, bold: str) -> list[str]:
    def written(cell: Cell) -> str:
        text = escape(_text(cell), escapes)
        return bold % text if isinstance(cell, Bold) else text

    return [separator.join(map(written, row)) for row in (table.columns, *table.rows)]


def to_latex(table: DataTable) -> str:
    r"""A `tabular` with the rules of booktabs, within a `table` with the caption if there is one.

    >>> print(to_latex(DataTable(["class", "ECE, %"], [["cat_1", 1.5]])))
    \begin{tabular}{lr}
    \toprule
    class & ECE, \% \\
    \midrule
    cat\_1 & 1.5 \\
    \bottomrule
    \end{tabular}
    """
    alignment = "".join("r" if number else "l" for number in table.numeric)
    head, *body = (line + r" \\" for line in _lines(table, LATEX_ESCAPES, " & ", r"\textbf{%s}"))
    lines = [f"\\begin{{tabular}}{{{alignment}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]
    if table.caption:
        caption = f"\\caption{{{escape(_text(table.caption), LATEX_ESCAPES)}}}"
        lines = [r"\begin{table}", r"\centering", caption, *lines, r"\end{table}"]
    return "\n".join(lines)


def to_csv(table: DataTable) -> str:
    """Comma-separated values, a header first; floats with all their digits.

    A text that a spreadsheet would run as a formula gets an apostrophe in front.

    >>> print(to_csv(DataTable(["class", "share"], [["a, b", 0.1], ["=1+1", None]])))
    class,share
    "a, b",0.1
    '=1+1,
    """
    return "\n".join(",".join(_csv_field(cell) for cell in row) for row in (table.columns, *table.rows))


def _csv_field(cell: Cell) -> str:
    if isinstance(cell, float):
        return repr(cell)
    text = _text(cell)
    if _FORMULA.match(text) and not _PLAIN_NUMBER.fullmatch(text):
        text = "'" + text
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text


def to_markdown(table: DataTable) -> str:
    r"""A pipe table.

    >>> print(to_markdown(DataTable(["class", "share"], [["a|b", 0.1]])))
    | class | share |
    | --- | ---: |
    | a\|b | 0.1 |
    """
    head, *body = (f"| {line} |" for line in _lines(table, MARKDOWN_ESCAPES, " | ", "**%s**"))
    rule = " | ".join("---:" if number else "---" for number in table.numeric)
    return "\n".join([head, f"| {rule} |", *body])


def write_text(path: Path, text: str) -> Path:
    """Write a text that ends in one line break; surrogates, which names of files can hold, are escaped."""
    require(path.parent.is_dir(), f"{path} must be in a folder that exists, {path.parent} does not")
    try:
        write_atomic(path, (text.rstrip("\n") + "\n").encode(errors="backslashreplace"))
    except OSError as error:
        raise InvalidInput(f"{path} must be a file that can be written ({error.strerror})") from error
    return path


_SUFFIXES = {".html": "html", ".json": "json", ".csv": "csv", ".tex": "latex", ".md": "markdown"}


def write_kind(result: Result, path: Path, kind: str | None, writers: Mapping[str, Callable[[Result], str]]) -> Path:
    """Write a result with the writer of `kind`; without it the suffix of `path` says which."""
    if kind is None and path.suffix not in _SUFFIXES:
        raise InvalidInput(f"a report's suffix must be one of {', '.join(_SUFFIXES)}, got {path.name!r}")
    chosen = kind or _SUFFIXES[path.suffix]
    require_choice("kind", chosen, tuple(writers))
    return write_text(path, writers[chosen](result))
