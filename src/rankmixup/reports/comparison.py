"""Comparisons of models: in a terminal, and as tables and files."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from rankmixup.evaluation.names import short_names
from rankmixup.evaluation.results import Compared, Comparison, FileKind
from rankmixup.reports.best import best_table
from rankmixup.reports.export import Cell, DataTable, to_csv, to_latex, write_kind
from rankmixup.reports.markdown import comparison_markdown
from rankmixup.reports.tables import fit_words, plain_table, rich_table, seeds_words, shown, shown_p_value, shown_range, titled


def shown_names(comparison: Comparison) -> dict[str, str]:
    """Short names of the models, by their full ones."""
    return dict(zip(comparison.models, short_names(list(comparison.models)), strict=True))


def comparison_view(comparison: Comparison) -> RenderableType:
    """A table for each metric: value and interval of each model, and its difference from the baseline; before many, all metrics in one."""
    parts: list[RenderableType] = []
    names, calibrated = shown_names(comparison), comparison.calibration is not None
    if comparison.seeds or len(comparison.metrics) > 3:
        combined = combined_table(comparison)
        parts += [Text(combined.caption, style="bold"), rich_table(combined), Text()]
    for key in comparison.metrics:
        after = ", after calibration" if calibrated else ""
        title = f"{titled(key)}{after}: {comparison.n:,} samples, baseline {names[comparison.baseline]}"
        table = plain_table("model", "value", "interval", "difference", "interval", "p", "verdict")
        for name, entries in comparison.models.items():
            estimate, difference = entries[key].estimate, entries[key].difference
            cells: list[RenderableType] = [Text(names[name], overflow="fold"), shown(key, estimate.value), shown_range(key, estimate)]
            if difference is not None:
                cells += [shown(key, difference.value, sign=True), shown_range(key, difference, sign=True)]
                cells += [shown_p_value(difference.p_holm), difference.verdict or ""]
            table.add_row(*cells)
        parts += [Text(title, style="bold"), table, Text()]
    parts += [Text(note) for note in comparison_notes(comparison)]
    for name, entries in comparison.models.items() if calibrated else ():
        values = ", ".join(f"{titled(key).removesuffix(', %')} {_before(key, each)}" for key, each in entries.items())
        parts.append(Text(f"{names[name]} before calibration: {values}."))
    return Group(*parts, *(Text(f"failed: {condition}") for condition in comparison.failed))


def comparison_notes(comparison: Comparison) -> list[str]:
    """How the numbers were made: the tests, their correction, and the calibrator of each model."""
    names, several = shown_names(comparison), len(comparison.metrics) > 1
    tests = "paired bootstrap; McNemar's test for accuracy" if several else "McNemar's test"
    differences = [each.difference for entries in comparison.models.values() for each in entries.values() if each.difference is not None]
    count = len(differences)
    if comparison.seeds:
        tests = "; ".join(dict.fromkeys(each.test for each in differences))
    held = f"Holm's correction over all {count} differences" if count > 1 else "one difference, no correction"
    notes = [f"interval: 95 % confidence interval. p: of no difference ({tests}), with {held}."]
    for name, seeds in comparison.seeds.items():
        notes.append(f"{names[name]}: means over {seeds_words(seeds)}, with Student's interval over them.")
    for name, fit in (comparison.calibration or {}).items():
        notes.append(f"{names[name]}: {fit_words(fit)}.")
        if fit.same_data:
            notes.append(f"{names[name]} was calibrated and compared on the same data: on new data expect it to do worse.")
        if not fit.converged:
            notes.append(f"The fit of {names[name]} did not converge; do not rely on it.")
    return notes


def difference_table(comparison: Comparison, key: str) -> DataTable:
    """One metric of each model and its difference from the baseline, each with its interval: at most six columns."""
    names, calibrated = shown_names(comparison), comparison.calibration is not None
    rows: list[list[Cell]] = []
    for name, entries in comparison.models.items():
        found, difference = entries[key], entries[key].difference
        cells: list[Cell] = [names[name], *([_before(key, found)] if calibrated else []), _with_range(key, found.estimate)]
        if difference is None:
            cells += ["", "", "baseline" if name == comparison.baseline else "not tested"]
        else:
            cells += [_with_range(key, difference, sign=True), shown_p_value(difference.p_holm), difference.verdict]
        rows.append(cells)
    values = ["before", "after (95 % interval)"] if calibrated else ["value (95 % interval)"]
    caption = f"{titled(key)}: differences from {names[comparison.baseline]}{', after calibration' if calibrated else ''}"
    return DataTable(["model", *values, "difference (95 % interval)", "p", "verdict"], rows, caption)


def combined_table(comparison: Comparison) -> DataTable:
    """Every model and metric in one table: means and standard deviations over seeds, the best of each metric in bold."""
    names = shown_names(comparison)
    over = "means and standard deviations over seeds, " if comparison.seeds else ""
    caption = f"{comparison.n:,} test samples{', after calibration' if comparison.calibration is not None else ''}: {over}the best in bold"
    values = {
        names[name]: {key: (each.estimate.value, each.deviation) for key, each in entries.items()}
        for name, entries in comparison.models.items()
    }
    return best_table(values, caption)


def difference_tables(comparison: Comparison) -> list[DataTable]:
    """`difference_table` of every metric."""
    return [difference_table(comparison, key) for key in comparison.metrics]


def tests_table(comparison: Comparison) -> DataTable:
    """Every difference from the baseline in one table: a row for each model and metric."""
    names, stage = shown_names(comparison), "after calibration" if comparison.calibration is not None else "before calibration"
    rows: list[list[Cell]] = []
    for name, entries in comparison.models.items():
        for key, found in entries.items():
            if (difference := found.difference) is not None:
                numbers = (_with_range(key, found.estimate), _with_range(key, difference, sign=True), shown_p_value(difference.p_holm))
                rows.append([names[name], titled(key), *numbers, difference.verdict])
    columns = ["model", "metric", "value (95 % interval)", "difference (95 % interval)", "p", "verdict"]
    return DataTable(columns, rows, f"Differences from {names[comparison.baseline]}, {stage}")


def _before(key: str, found: Compared) -> str:
    return shown(key, found.before.value if found.before else None)


def _with_range(key: str, found: object, *, sign: bool = False) -> str:
    interval = shown_range(key, found, sign=sign)
    return shown(key, found.value, sign=sign) + (f" ({interval})" if interval else "")  # type: ignore[attr-defined]


def _for_programs(comparison: Comparison) -> DataTable:
    """Fractions with all their digits."""
    rows: list[list[Cell]] = []
    for name, entries in comparison.models.items():
        for key, found in entries.items():
            estimate, difference = found.estimate, found.difference
            before = found.before.value if found.before else None
            tested: Sequence[Cell] = [None] * 7
            if difference is not None:
                tested = [difference.value, difference.low, difference.high, difference.p_value, difference.p_holm]
                tested = [*tested, difference.test, difference.verdict]
            seeds = " ".join(map(str, comparison.seeds.get(name, ())))
            named = (titled(key), found.deviation, seeds)
            rows.append([name, key, before, estimate.value, estimate.low, estimate.high, *tested, *named])
    columns = ["model", "metric", "before", "value", "low", "high", "difference", "difference_low", "difference_high", "p_value", "p_holm"]
    return DataTable([*columns, "test", "verdict", "name", "deviation", "seeds"], rows)


def _page(comparison: Comparison) -> str:
    from rankmixup.reports.html import render_page  # which needs jinja2

    names = shown_names(comparison)
    # Without folders, which are of no use on another machine.
    fits = comparison.calibration and {names[name]: fit for name, fit in comparison.calibration.items()}
    models = {names[name]: entries for name, entries in comparison.models.items()}
    comparison = replace(comparison, baseline=names[comparison.baseline], models=models, calibration=fits)
    parts = {"tables": [combined_table(comparison), *difference_tables(comparison)], "notes": comparison_notes(comparison)}
    return render_page("comparison.html.j2", title="Comparison of models", comparison=comparison, **parts, data=comparison.to_dict())


_KINDS: dict[str, Callable[[Comparison], str]] = {
    "html": _page,
    "json": lambda comparison: json.dumps(comparison.to_dict(), indent=2, allow_nan=False),
    "csv": lambda comparison: to_csv(_for_programs(comparison)),
    "latex": lambda comparison: "\n\n".join(map(to_latex, [combined_table(comparison), *difference_tables(comparison)])),
    "markdown": lambda comparison: comparison_markdown(comparison.failed, difference_tables(comparison), comparison_notes(comparison)),
}


def write_comparison(comparison: Comparison, path: Path, kind: FileKind | None = None) -> Path:
    """Write a comparison; without `kind` the suffix of `path` says which."""
    return write_kind(comparison, path, kind, _KINDS)
