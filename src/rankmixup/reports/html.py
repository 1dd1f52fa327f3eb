"""One HTML page about one or more models, in a single file that makes no request."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankmixup import __version__
from rankmixup.errors import InvalidInput, require
from rankmixup.files import write_atomic
from rankmixup.reports import html_figures, html_tables
from rankmixup.reports.entry import ReportEntry
from rankmixup.reports.export import LATEX_ESCAPES, MARKDOWN_ESCAPES

if TYPE_CHECKING:
    from jinja2 import Environment

_POLICY = "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'"


def write_report(entries: Sequence[ReportEntry], path: str | Path, *, title: str = "Calibration report", num_bins: int = 15) -> Path:
    """Write the page; returns its path."""
    path = Path(path)
    require(path.parent.is_dir(), f"{path} must be in a folder that exists, {path.parent} does not")
    page = render_report(entries, title=title, num_bins=num_bins)
    try:
        write_atomic(path, page.encode(errors="backslashreplace"))
    except OSError as error:
        raise InvalidInput(f"{path} must be a file that can be written ({error.strerror})") from error
    return path


def render_report(entries: Sequence[ReportEntry], *, title: str = "Calibration report", num_bins: int = 15) -> str:
    """The page as text."""
    require(len(entries) > 0, "a report must be about at least one model, got none")
    entries = distinct(entries)
    models = [
        {
            "name": entry.name,
            "verdict": html_tables.verdict(entry),
            "metrics": html_tables.metrics_table(entry),
            "figures": html_figures.entry_figures(entry, f"m{position}", num_bins),
            "classes": html_tables.class_table(entry, num_bins),
        }
        for position, entry in enumerate(entries)
    ]
    return render_page(
        "report.html.j2",
        title=title,
        models=models,
        summary=html_tables.summary_table(entries),
        overview=html_tables.overview_table(entries),
        figures=html_figures.shared_figures(entries, num_bins),
        ood=html_tables.ood_table(entries),
        protocol=html_tables.protocol_table(entries),
        num_bins=num_bins,
        data={entry.name: entry.evaluation.to_dict() for entry in entries},
    )


def render_page(template: str, **contents: Any) -> str:
    """A page from a template, with the script and the style that all pages share."""
    environment = _environment()
    script, style = (_source(environment, name) for name in ("report.js", "report.css"))
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
    short = [Path(entry.name).name if entry.name == entry.evaluation.source else entry.name for entry in entries]
    if len(set(short)) == len(short):
        entries = [replace(entry, name=name or entry.name) for entry, name in zip(entries, short, strict=True)]
    taken: set[str] = set()
    distinct = []
    for entry in entries:
        name, number = entry.name, 1
        while name in taken:
            number += 1
            name = f"{entry.name} ({number})"
        taken.add(name)
        distinct.append(entry if name == entry.name else replace(entry, name=name))
    return distinct


def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Everything is escaped: class names and file names come from outside.
    return Environment(
        loader=PackageLoader("rankmixup.reports"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


def _source(environment: "Environment", name: str) -> str:
    loader: Any = environment.loader
    return loader.get_source(environment, name)[0]


def _digest(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
