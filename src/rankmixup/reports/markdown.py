"""Compact Markdown for pull requests: what failed first, then tables of at most six columns."""

import itertools
from collections.abc import Sequence

from rankmixup.errors import one_line
from rankmixup.evaluation.registry import metric_named
from rankmixup.evaluation.results import Evaluation, all_metrics_of
from rankmixup.reports.export import MARKDOWN_ESCAPES, Cell, DataTable, escape, to_markdown
from rankmixup.reports.groups import compact_table, gap_lines, groups_reading, positive_groups
from rankmixup.reports.tables import POSITIVE_READING, estimate_cells, few_errors, fit_words, positive_lines, shown, shown_range, titled

_READING = (
    'Intervals are 95 % confidence intervals. The verdict on a calibration error is "miscalibrated" if fewer than 5 % of perfectly '
    "calibrated models with the same confidences show one as large."
)


def text_line(text: str) -> str:
    """Text from outside as one line of Markdown."""
    return escape(one_line(text), MARKDOWN_ESCAPES)


def failures(failed: Sequence[str]) -> list[str]:
    """The conditions that failed, as a list below a bold line; nothing where none has."""
    count = len(failed)
    return (
        [f"**Failed: {count} condition{'s' * (count > 1)}**\n\n" + "\n".join(f"- {text_line(each)}" for each in failed)] if failed else []
    )


def evaluation_markdown(evaluation: Evaluation) -> str:
    """Every metric before and, if there was one, after calibration, with its verdict; OOD detection and groups in tables of their own."""
    head = f"**{text_line(evaluation.source)}**: {evaluation.n:,} samples, {evaluation.num_classes} classes"
    calibration = evaluation.calibration
    notes = [_READING, *([POSITIVE_READING] if evaluation.positive else []), *few_errors(evaluation)]
    if calibration:
        head += f"; after {text_line(fit_words(calibration))}"
        if calibration.same_data:
            notes.insert(
                0, "Calibrated and evaluated on the same data: results after calibration are better than they would be on new data."
            )
        if not calibration.converged:
            notes.insert(0, "The fit of the calibrator did not converge; do not rely on it.")
    parts = [*failures(evaluation.failed), head, *map(text_line, positive_lines(evaluation)), to_markdown(metrics_markdown(evaluation))]
    if evaluation.ood:
        parts.append(to_markdown(_detection(evaluation)))
    for name, grouping in evaluation.groups.items():
        for table in (*itertools.chain(*positive_groups(name, grouping).values()), compact_table(name, grouping)):
            parts += [f"**{text_line(table.caption)}**", to_markdown(table)]
        said = [f"- {text_line(line)}" for line in gap_lines(grouping)]
        parts += ["\n".join(said)] if said else []
    notes += [groups_reading([evaluation])] if evaluation.groups else []
    return "\n\n".join([*parts, *notes])


def metrics_markdown(evaluation: Evaluation) -> DataTable:
    """One row for each metric: six columns without calibration, five with it."""
    after = all_metrics_of(evaluation.calibration) if evaluation.calibration else None
    rows: list[list[Cell]] = []
    for key, estimate in all_metrics_of(evaluation).items():
        if estimate is None and not (after and after.get(key)):
            continue
        if after is None:
            rows.append([titled(key), *estimate_cells(key, estimate)])
            continue
        cells: list[Cell] = [titled(key)]
        for each in (estimate, after.get(key)):
            interval = shown_range(key, each)
            value = shown(key, each.value) if each else ""
            cells += [f"{value} ({interval})" if interval else value, (each.verdict if each else None) or ""]
        rows.append(cells)
    plain = ["metric", "value", "95 % interval", "noise floor", "p", "verdict"]
    return DataTable(plain if after is None else ["metric", "before", "verdict before", "after", "verdict after"], rows)


def _detection(evaluation: Evaluation) -> DataTable:
    """AUROC and its kin of each OOD set, with intervals: one row for each metric and set."""
    rows: list[list[Cell]] = [
        [name, metric_named(key).title, shown(key, estimate.value), shown_range(key, estimate)]
        for name, found in evaluation.ood.items()
        for key, estimate in found.metrics.items()
    ]
    return DataTable(["OOD set", "metric", "value, %", "95 % interval"], rows)


def comparison_markdown(failed: Sequence[str], tables: Sequence[DataTable], notes: Sequence[str]) -> str:
    """A table for each metric below its caption."""
    parts = failures(failed)
    for table in tables:
        parts += [f"**{text_line(table.caption)}**", to_markdown(table)]
    return "\n\n".join([*parts, *map(text_line, notes)])
