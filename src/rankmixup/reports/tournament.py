"""The tournament as tables, a figure and a page. Everything follows from tournament.json."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from rankmixup.errors import require
from rankmixup.evaluation import Estimate
from rankmixup.experiments.tournament import COLUMNS, LABELS, Standing, Tournament
from rankmixup.files import read_json, write_json
from rankmixup.reports.export import DataTable, to_csv, to_markdown, write_text
from rankmixup.reports.figures import save_figure
from rankmixup.reports.figures.style import BLUE, GREY, new_figure
from rankmixup.reports.tables import rich_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

READING = (
    "A method calibrates by training alone in a data set (yes) if the 95 % intervals of paired differences over seeds put its ECE before "
    "temperature scaling at most 1 point above that of cross-entropy after it, and its accuracy at most 1 point below that of "
    "cross-entropy; no: an interval lies beyond the limit; open: an interval holds it. ECE, T and NLL, T: after temperature scaling. "
    "ECE - CE, T: ECE before temperature scaling less that of cross-entropy after it. cost: time of a training step over "
    "that of cross-entropy."
)


_WIDE = ("NLL, T", "AURC")
"""Columns that a terminal has no room for."""


def summary_table(found: Tournament, keys: Sequence[str] = tuple(LABELS)) -> DataTable:
    """A row for each method: in how many data sets it calibrates by training alone, mean differences from cross-entropy, and cost."""
    columns = ["method", "yes", "open", "no", "ECE - CE, T", "NLL - CE, T", "acc. - CE", "cost"]
    rows = []
    for key in keys:
        standings = found.of(key)
        if not standings:
            continue
        answers = [each.calibrates for each in standings]
        differences = [[100 * d.value for each in standings if (d := getattr(each, name))] for name in ("ece_above", "accuracy_above")]
        nll = [each.nll_above.value for each in standings if each.nll_above]
        means = [f"{sum(part) / len(part):+.1f}" if part else None for part in differences]
        counts = [answers.count("yes"), answers.count("open"), answers.count("no")]
        cost = f"{found.costs[key]:.2f}" if key in found.costs else None
        rows.append([LABELS[key], *counts, means[0], f"{sum(nll) / len(nll):+.3f}" if nll else None, means[1], cost])
    return DataTable(columns, rows, f"{len(found.columns)} data sets; differences are means over data sets, of ECE and accuracy in points")


def column_table(found: Tournament, column: str) -> DataTable:
    """A row for each method in one data set."""
    columns = ["method", "accuracy", "ECE", "ECE, T", "NLL", "NLL, T", "AURC", "ECE - CE, T", "acc. - CE", "alone"]
    rows: list[list[str | None]] = []
    for each in found.standings:
        if each.column == column and each.seeds:
            plain, after = each.plain, each.after
            numbers = [f"{100 * plain[key].value:.1f}" for key in ("accuracy", "ece")] + [f"{100 * after['ece'].value:.1f}"]
            numbers += [f"{plain['nll'].value:.3f}", f"{after['nll'].value:.3f}", f"{100 * plain['aurc'].value:.1f}"]
            differences = [_with_interval(each.ece_above), _with_interval(each.accuracy_above)]
            rows.append([LABELS[each.row], *numbers, *differences, each.calibrates])
    seeds = max((each.seeds for each in found.standings if each.column == column), default=0)
    return DataTable(columns, rows, f"{found.columns[column]}, means of {seeds} seeds, in percent but for NLL")


def _with_interval(estimate: Estimate | None) -> str | None:
    if estimate is None:
        return None
    ends = "" if estimate.low is None or estimate.high is None else f" ({100 * estimate.low:+.1f} to {100 * estimate.high:+.1f})"
    return f"{100 * estimate.value:+.1f}{ends}"


def tournament_view(found: Tournament) -> RenderableType:
    """For a terminal."""
    parts: list[RenderableType] = []
    for table in (*(column_table(found, column) for column in found.columns), summary_table(found)):
        narrow = [place for place, name in enumerate(table.columns) if name not in _WIDE]
        cells = [
            [str("" if row[place] is None else row[place]).partition(" (")[0] if place else row[0] for place in narrow]
            for row in table.rows
        ]
        parts += [Text(table.caption, style="bold"), rich_table(DataTable([table.columns[place] for place in narrow], cells)), Text()]
    return Group(*parts, Text(READING))


def tournament_figure(found: Tournament) -> "Figure":
    """ECE as trained less cross-entropy's after temperature scaling, with its interval, for each method in each data set."""
    rows = [row for row in LABELS if found.of(row)]
    figure = new_figure(2.0 + 1.7 * len(found.columns), 1.2 + 0.27 * len(rows))
    panels = figure.subplots(1, len(found.columns), squeeze=False, sharey=True)[0]
    for panel, (column, label) in zip(panels, found.columns.items(), strict=True):
        for place, row in enumerate(rows):
            _draw(panel, place, [each for each in found.of(row) if each.column == column])
        panel.axvline(1.0, color=GREY, linewidth=1, linestyle="--")
        panel.set_title(label, fontsize=8)
        panel.tick_params(axis="x", labelsize=7)
        panel.grid(axis="x", alpha=0.3)
    panels[0].set_yticks(range(len(rows)), [LABELS[row] for row in rows], fontsize=8)
    panels[0].set_ylim(len(rows) - 0.5, -0.5)
    figure.supxlabel("ECE before temperature scaling less that of CE after it, points (dashed: the limit)", fontsize=8)
    return figure


def _draw(panel: object, place: int, standings: Sequence[Standing]) -> None:
    for each in standings:
        difference = each.ece_above
        if difference is not None:
            low, high = (difference.value if end is None else end for end in (difference.low, difference.high))
            filled = each.calibrates == "yes"
            look = {"color": BLUE, "marker": "o", "markersize": 4.5, "markerfacecolor": BLUE if filled else "white", "linestyle": "none"}
            margins = [[100 * (difference.value - low)], [100 * (high - difference.value)]]
            panel.errorbar(100 * difference.value, place, xerr=margins, capsize=2, linewidth=1.2, **look)  # type: ignore[attr-defined]


def tournament_page(found: Tournament, changed: Mapping[str, Tournament], figures: str, commands: str = "", text: str = "") -> str:
    """A page in Markdown.

    `changed` has what was reproduced beside it, by title; `figures` is where the images are, `commands` what made them, `text` what is
    said about them.
    """
    intro = "Every method at its defaults, and those with a dial tuned by feedback. Ours, not the paper's."
    parts = ["# The tournament", f"{intro} {found.runs} runs."]
    parts += [f"```bash\n{commands}\n```"] if commands else []
    parts += [text.strip()] if text.strip() else []
    parts += [to_markdown(summary_table(found)), READING, f"![Paired differences]({figures}/tournament.png)"]
    gaps = [abs(gap) for each in found.of("rankmixup-auto") for gap in each.gaps]
    if gaps:
        small = sum(gap < 0.015 for gap in gaps)
        parts.append(f"Validation gap of RankMixup auto at the end: below 1.5 points in {small} of {len(gaps)} runs.")
    for title, part in {"": found, **changed}.items():
        for column, label in part.columns.items():
            table = column_table(part, column)
            if table.rows:
                chosen = "" if title else f" Chosen by cross-entropy alone: {COLUMNS[column].chosen}."
                parts += [f"## {title}: {label}" if title else f"## {label}", f"{table.caption}.{chosen}", to_markdown(table)]
    return "\n\n".join(parts) + "\n"


def write_tournament(found: Tournament, folder: Path, name: str = "tournament") -> list[Path]:
    """Write NAME.json and .csv, and the figure; returns what was written."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{name}.json", found.to_dict())
    tables = [column_table(found, column) for column in found.columns]
    rows = [[found.columns[column], *row] for column, table in zip(found.columns, tables, strict=True) for row in table.rows]
    merged = DataTable(["data set", *tables[0].columns], rows)
    written = write_text(folder / f"{name}.csv", to_csv(merged))
    return [folder / f"{name}.json", written, *save_figure(tournament_figure(found), folder / "figures" / name)]


def add_to_tournament(found: Tournament, folder: Path, name: str = "tournament") -> list[Path]:
    """Likewise, beside the columns that are there already."""
    return write_tournament(found.beside(read_tournament(folder, name)) if (folder / f"{name}.json").is_file() else found, folder, name)


def read_tournament(folder: Path, name: str = "tournament") -> Tournament:
    """What `write_tournament` wrote."""
    data = read_json(folder / f"{name}.json")
    require(isinstance(data, dict) and data.get("schema") == 1, f"{folder / name}.json must be a tournament of schema 1")
    return Tournament.from_dict(data)
