"""One HTML page about one or more models, in a single file that makes no request."""

import base64
import hashlib
import importlib.metadata
import itertools
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from rankmixup import __version__
from rankmixup.errors import InvalidInput, require
from rankmixup.evaluation import Evaluation
from rankmixup.evaluation.names import short_names
from rankmixup.evaluation.paired_tests import NO_TESTS, PairedTests
from rankmixup.reports import groups, html_figures, html_tables
from rankmixup.reports.comparison import comparison_notes, tests_table
from rankmixup.reports.entry import ReportEntry
from rankmixup.reports.export import LATEX_ESCAPES, MARKDOWN_ESCAPES, Bold

if TYPE_CHECKING:
    from markupsafe import Markup

_POLICY = "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'"


def render_report(entries: Sequence[ReportEntry], *, tests: PairedTests = NO_TESTS, title: str = "Calibration report") -> str:
    """The page as text; `tests` are between the models as `distinct` names them."""
    require(len(entries) > 0, "a report must be about at least one model, got none")
    entries = [replace(entry, evaluation=_placeless(entry)) for entry in distinct(entries)]
    data = {entry.name: _page_data(entry.evaluation) for entry in entries}
    compared = [(tests_table(each), comparison_notes(each)[0]) for each in tests.comparisons]
    modules = {"tables": html_tables, "figures": html_figures, "groups": groups}
    contents = {"entries": entries, "compared": compared, "not_compared": tests.reason, **modules}
    return render_page("report.html.j2", title=title, **contents, data=data)


def _page_data(evaluation: Evaluation) -> dict[str, Any]:
    """The numbers of an evaluation for programs; classes that are too many for the page are left to `--json` and `--class-csv`."""
    data = evaluation.to_dict()
    return {**data, "classes": []} if len(data["classes"]) > groups.MOST_CLASSES else data


def _placeless(entry: ReportEntry) -> Evaluation:
    """The evaluation with the name of its source instead of an absolute path, which is of no use on another machine."""
    source = entry.evaluation.source
    return replace(entry.evaluation, source=entry.name) if PurePath(source).is_absolute() else entry.evaluation


def render_page(template: str, **contents: Any) -> str:
    """A page from a template, with the script and the style that all pages share."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Everything is escaped: class names and file names come from outside.
    environment = Environment(
        loader=PackageLoader("rankmixup.reports"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["breakable"] = breakable
    environment.tests["bold"] = lambda cell: isinstance(cell, Bold)
    script, style = (files("rankmixup.reports").joinpath("templates", name).read_text("utf-8") for name in ("report.js", "report.css"))
    return environment.get_template(template).render(
        version=__version__,
        date=report_date(),
        versions=", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "numpy")),
        script=script,
        style=style,
        # Only what was written here may run or style: the page holds names from outside.
        policy=f"{_POLICY}; script-src '{_digest(script)}'; style-src '{_digest(style)}'",
        escapes={"latex": LATEX_ESCAPES, "markdown": MARKDOWN_ESCAPES},
        **contents,
    )


def breakable(text: object) -> "Markup":
    """Text that may break after `_`, `-`, `/` and `,`, as names of files do, and in words of more than 16 letters."""
    from markupsafe import Markup

    word = r"[^\s_/,-]{1,16}"  # behind a space the browser breaks by itself
    pieces = re.findall(rf"(?:{word}\s+)*{word}[_/,-]*\s*|[\s_/,-]+", str(text))
    return Markup("<wbr>").join(pieces)


def report_date() -> str:
    """Today in UTC, or the day of SOURCE_DATE_EPOCH, in seconds since 1970: with it, equal inputs give equal pages on any day."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    if not seconds:
        return datetime.now(UTC).date().isoformat()
    try:
        return datetime.fromtimestamp(int(seconds), UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        raise InvalidInput(f"SOURCE_DATE_EPOCH must be a whole number of seconds since 1970, got {seconds!r}") from None


def distinct(entries: Sequence[ReportEntry]) -> list[ReportEntry]:
    """Entries whose names differ: files without the folders that tell nothing, the second of a name as `name (2)`."""
    sources = {name for entry in entries if (name := entry.name) == entry.evaluation.source}
    short = dict(zip(sorted(sources), short_names(sorted(sources)), strict=True))
    names = [short.get(entry.name, entry.name) for entry in entries]
    taken: list[str] = []
    for name in names:
        numbered = (f"{name} ({number})" for number in itertools.count(2))
        taken.append(next(each for each in itertools.chain([name], numbered) if each not in taken))
    return [replace(entry, name=name) for entry, name in zip(entries, taken, strict=True)]


def _digest(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
