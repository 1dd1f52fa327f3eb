"""One HTML page about one or more models, in a single file that makes no request."""

import base64
import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from rankmixup import __version__
from rankmixup.errors import require
from rankmixup.reports import html_figures, html_tables
from rankmixup.reports.entry import ReportEntry
from rankmixup.reports.export import LATEX_ESCAPES, MARKDOWN_ESCAPES

_POLICY = "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'"


def render_report(entries: Sequence[ReportEntry], *, title: str = "Calibration report") -> str:
    """The page as text."""
    require(len(entries) > 0, "a report must be about at least one model, got none")
    entries = distinct(entries)
    data = {entry.name: entry.evaluation.to_dict() for entry in entries}
    return render_page("report.html.j2", title=title, entries=entries, tables=html_tables, figures=html_figures, data=data)


def render_page(template: str, **contents: Any) -> str:
    """A page from a template, with the script and the style that all pages share."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Everything is escaped: class names and file names come from outside.
    environment = Environment(
        loader=PackageLoader("rankmixup.reports"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    script, style = (files("rankmixup.reports").joinpath("templates", name).read_text("utf-8") for name in ("report.js", "report.css"))
    return environment.get_template(template).render(
        version=__version__,
        script=script,
        style=style,
        # Only what was written here may run or style: the page holds names from outside.
        policy=f"{_POLICY}; script-src '{_digest(script)}'; style-src '{_digest(style)}'",
        escapes={"latex": LATEX_ESCAPES, "markdown": MARKDOWN_ESCAPES},
        **contents,
    )


def distinct(entries: Sequence[ReportEntry]) -> list[ReportEntry]:
    """Entries whose names differ: files by their own name where folders tell nothing, the second of a name as `name (2)`."""
    names = [Path(entry.name).name or entry.name if entry.name == entry.evaluation.source else entry.name for entry in entries]
    if len(set(names)) < len(names):
        names = [entry.name for entry in entries]
    taken: list[str] = []
    for name in names:
        numbered = (f"{name} ({number})" for number in itertools.count(2))
        taken.append(next(each for each in itertools.chain([name], numbered) if each not in taken))
    return [replace(entry, name=name) for entry, name in zip(entries, taken, strict=True)]


def _digest(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
