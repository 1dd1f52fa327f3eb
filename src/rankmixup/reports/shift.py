"""Calibration under shift as tables: for a terminal, for programs, and short ones for Markdown."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from rankmixup.errors import require
from rankmixup.evaluation.results import Estimate
from rankmixup.evaluation.shift_results import SHIFT_METRICS, STAGES, Reversal, Shift, ShiftedMethod, ShiftFileKind, Stage
from rankmixup.reports.export import Cell, DataTable, to_csv, to_markdown, write_kind
from rankmixup.reports.markdown import text_line
from rankmixup.reports.tables import rich_table, shown, shown_p_value, shown_range, titled

READING = (
    "Severity 0: the test images as they are. Other rows are means over corruptions. T: after the temperature fitted on clean validation "
    "samples."
)
_FLOOR = "floor: the ECE that perfectly calibrated models with the same confidences show on average."
_TESTS = "p: of no difference from the baseline, with Holm's correction over all differences of a metric"


def severity_table(method: ShiftedMethod) -> DataTable:
    """A row for each severity of one method."""
    columns = ["severity", "acc., %", "ECE, %", "interval", "floor", "ECE, T", "NLL", "NLL, T"]
    rows = []
    for each in method.severities:
        before, after = each.before, each.after
        ece = before["ece"]
        cells: list[Cell] = [str(each.severity), shown("accuracy", before["accuracy"].value), shown("ece", ece.value)]
        cells += [shown_range("ece", ece), shown("ece", ece.floor.mean if ece.floor else None), shown("ece", after["ece"].value)]
        rows.append([*cells, *(f"{part['nll'].value:.3f}" for part in (before, after))])
    return DataTable(columns, rows)


def corruption_table(found: Shift, name: str, metric: str = "ece", stage: Stage = "before") -> DataTable:
    """A row for each corruption of one method, a column for each severity."""
    cells = {(cell.corruption, cell.severity): getattr(cell, stage)[metric] for cell in found.methods[name].cells}
    columns = [f"{titled(metric)}{', T' if stage == 'after' else ''}", *(f"severity {severity}" for severity in found.severities)]
    rows = [[each, *(shown(metric, cells[each, severity]) for severity in found.severities)] for each in found.corruptions]
    return DataTable(columns, rows)


def methods_table(found: Shift, severity: int) -> DataTable:
    """A row for each method at one severity, with p-values of its differences of ECE from the baseline; narrow enough for long names."""
    columns = ["method", "acc., %", "ECE, %", "p", "ECE, T", "p, T", "NLL", "NLL, T"]
    rows = []
    for name, method in found.methods.items():
        at = method.at(severity)
        cells: list[Cell] = [name, shown("accuracy", at.before["accuracy"].value)]
        for stage in STAGES:
            difference = method.difference(severity, stage, "ece")
            cells += [shown("ece", at.of(stage)["ece"].value), shown_p_value(difference.p_holm if difference else None)]
        rows.append([*cells, *(f"{at.of(stage)['nll'].value:.3f}" for stage in STAGES)])
    return DataTable(columns, rows)


def markdown_table(found: Shift) -> DataTable:
    """At most six columns: severities of one method, or methods at each severity."""
    if len(found.methods) == 1:
        (method,) = found.methods.values()
        columns = ["severity", "accuracy, %", "ECE, %", "ECE after T, %", "NLL", "NLL after T"]
        rows: list[list[Cell]] = []
        for each in method.severities:
            cells = [(each.before, "accuracy"), (each.before, "ece"), (each.after, "ece"), (each.before, "nll"), (each.after, "nll")]
            rows.append([str(each.severity), *(_with_range(part, key) for part, key in cells)])
        return DataTable(columns, rows)
    columns = ["severity", "method", "accuracy, %", "ECE, %", "ECE after T, %", f"p (ECE, {found.baseline})"]
    rows = []
    for severity in (0, *found.severities):
        for name, method in found.methods.items():
            at, difference = method.at(severity), method.difference(severity, "before", "ece")
            numbers = [_with_range(part, key) for part, key in ((at.before, "accuracy"), (at.before, "ece"), (at.after, "ece"))]
            rows.append([str(severity), name, *numbers, shown_p_value(difference.p_holm if difference else None)])
    return DataTable(columns, rows)


def _with_range(part: Mapping[str, Estimate], key: str) -> str:
    interval = shown_range(key, part[key])
    return f"{shown(key, part[key].value)} ({interval})" if interval else shown(key, part[key].value)


def shift_markdown(found: Shift) -> str:
    """What was measured, the table, and how to read it."""
    methods = "; ".join(f"{text_line(name)}, {_temperatures(method)}" for name, method in found.methods.items())
    several = f" {_TESTS}; baseline {found.baseline}." if len(found.methods) > 1 else ""
    reading = text_line(f"{READING} In brackets: 95 % intervals {_over(found)}.{several}")
    return "\n\n".join([f"**{methods}**: {text_line(source_line(found))}", to_markdown(markdown_table(found)), reading])


def _temperatures(method: ShiftedMethod) -> str:
    return f"T = {', '.join(f'{run.temperature:.3g}' for run in method.runs)}"


def _over(found: Shift) -> str:
    """What intervals are over: a method of several runs has one over their seeds."""
    counts = {len(method.runs) > 1 for method in found.methods.values()}
    return "over seeds or, of one run, over images" if len(counts) > 1 else "over seeds" if counts == {True} else "over images"


def program_table(found: Shift) -> DataTable:
    """Every number as a fraction: a row for each method, severity, corruption (`mean` is over all), stage and metric."""
    columns = ["method", "severity", "corruption", "stage", "metric", "value", "low", "high", "floor", "difference", "p_value", "p_holm"]
    rows: list[list[Cell]] = []
    for name, method in found.methods.items():
        for each in method.severities:
            for stage in STAGES:
                for metric in SHIFT_METRICS:
                    estimate, difference = each.of(stage)[metric], method.difference(each.severity, stage, metric)
                    compared = [difference.value, difference.p_value, difference.p_holm] if difference else [None] * 3
                    floor = estimate.floor.mean if estimate.floor else None
                    head: list[Cell] = [name, each.severity, "mean" if each.severity else "clean", stage, metric]
                    rows.append([*head, estimate.value, estimate.low, estimate.high, floor, *compared])
        for cell in method.cells:
            for stage in STAGES:
                values = getattr(cell, stage)
                for metric in SHIFT_METRICS if cell.severity else ():
                    floor = values["ece_floor"] if metric == "ece" else None
                    head = [name, cell.severity, cell.corruption, stage, metric]
                    rows.append([*head, values[metric], None, None, floor, None, None, None])
    return DataTable(columns, rows)


def source_line(found: Shift) -> str:
    """Where the images are from."""
    method = next(iter(found.methods.values()))
    count = f"{method.severities[-1].n:,} images, {len(found.corruptions)} corruptions"
    if found.images == "published files":
        return f"{count}, published files"
    left = f"; without {', '.join(found.left_out)}, which grey images cannot have" if found.left_out else ""
    return f"{count}, generated (constants for {found.image_size} pixels, seed {found.seed}){left}"


def reversal_lines(reversals: Sequence[Reversal]) -> list[str]:
    """A sentence for each pair of methods that changes places."""
    lines = []
    for each in reversals:
        what = f"{titled(each.metric).partition(',')[0]}{' after temperature scaling' if each.stage == 'after' else ''}"
        clean, shifted = (shown(each.metric, value) for value in (each.clean, each.shifted))
        ends = f"better by {clean} on clean images, {each.shifted_better} by {shifted} under shift"
        p_value = shown_p_value(each.p_holm)
        lines.append(f"{what}: {each.clean_better} is {ends} (p {p_value if p_value.startswith('<') else f'= {p_value}'}).")
    return lines


def shift_view(found: Shift) -> RenderableType:
    """For a terminal."""
    parts: list[RenderableType] = [Text(source_line(found), style="bold"), Text()]
    if len(found.methods) == 1:
        ((name, method),) = found.methods.items()
        runs = f"{_temperatures(method)}; 95 % intervals {_over(found)}"
        runs = f"means of {len(method.runs)} seeds, {runs}" if len(method.runs) > 1 else runs
        tables = rich_table(severity_table(method)), Text(), rich_table(corruption_table(found, name))
        parts += [Text(f"{name}: {runs}", style="bold"), *tables]
        return Group(*parts, Text(f"\n{READING} {_FLOOR}"))
    for severity in (0, *found.severities):
        parts += [Text(f"severity {severity}", style="bold"), rich_table(methods_table(found, severity)), Text()]
    tests = {each.difference.test for method in found.methods.values() for each in method.differences}
    parts += [Text(f"{READING} {_TESTS} ({', '.join(sorted(tests))}); baseline {found.baseline}.")]
    if not any(test.endswith("over seeds") for test in tests):  # of single runs, orders are not compared
        return Group(*parts)
    shown_changes = [each for each in found.reversals if each.p_holm < 0.05]
    parts += [Text(f"\nOrders that turn round under shift: {len(found.reversals)} seen, {len(shown_changes)} shown (p < 0.05).")]
    return Group(*parts, *map(Text, reversal_lines(shown_changes)))


_KINDS: dict[str, Callable[[Shift], str]] = {
    "json": lambda found: json.dumps(found.to_dict(), indent=2, allow_nan=False),
    "csv": lambda found: to_csv(program_table(found)),
    "markdown": shift_markdown,
}


def write_shift(found: Shift, path: Path, kind: ShiftFileKind | None = None) -> Path:
    """Write a result; without `kind` the suffix of `path` says which. Figures are written as PNG and as SVG."""
    if (kind or path.suffix.removeprefix(".")) not in ("png", "svg"):
        return write_kind(found, path, kind, _KINDS)
    require(path.parent.is_dir(), f"{path} must be in a folder that exists, {path.parent} does not")
    from rankmixup.reports.figures import save_figure, shift_figure  # matplotlib is slow to import

    save_figure(shift_figure(found), path)
    return path
