"""Evaluations as files: a page, or a table for LaTeX, spreadsheets, Markdown and programs."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from rankmixup.errors import InvalidInput, require_choice
from rankmixup.evaluation.registry import metric_named
from rankmixup.evaluation.results import Evaluation, FileKind, Metrics
from rankmixup.reports.entry import ReportEntry
from rankmixup.reports.export import Cell, DataTable, to_csv, to_latex, to_markdown, write_text
from rankmixup.reports.html import render_report
from rankmixup.reports.tables import ESTIMATE_COLUMNS, estimate_cells
from rankmixup.runs import StoredRun

_SUFFIXES = {".html": "html", ".json": "json", ".csv": "csv", ".tex": "latex", ".md": "markdown"}
_KINDS: dict[str, Callable[[Evaluation], str]] = {
    "html": lambda evaluation: render_report([ReportEntry.of(evaluation)]),
    "json": lambda evaluation: json.dumps(evaluation.to_dict(), indent=2, allow_nan=False),
    "csv": lambda evaluation: to_csv(_for_programs(evaluation)),
    "latex": lambda evaluation: to_latex(_for_people(evaluation)),
    "markdown": lambda evaluation: to_markdown(_for_people(evaluation)),
}


def write_evaluation(evaluation: Evaluation, path: Path, kind: FileKind | None = None) -> Path:
    """Write one evaluation; without `kind` the suffix of `path` says which."""
    if kind is None and path.suffix not in _SUFFIXES:
        raise InvalidInput(f"a report's suffix must be one of {', '.join(_SUFFIXES)}, got {path.name!r}")
    chosen = kind or _SUFFIXES[path.suffix]
    require_choice("kind", chosen, tuple(_KINDS))
    return write_text(path, _KINDS[chosen](evaluation))


def write_page(path: Path, evaluations: Sequence[Evaluation], runs: Sequence[StoredRun | None] = ()) -> None:
    """One HTML page about all evaluations; `runs` are where they come from, in the same order."""
    stored = runs or [None] * len(evaluations)
    write_text(path, render_report([ReportEntry.of(evaluation, run) for evaluation, run in zip(evaluations, stored, strict=True)]))


def _stages(evaluation: Evaluation) -> dict[str, Metrics]:
    """Metrics before and, if there was one, after calibration."""
    calibration = evaluation.calibration
    return {"before": evaluation.metrics, **({f"after {calibration.method}": calibration.metrics} if calibration else {})}


def _for_programs(evaluation: Evaluation) -> DataTable:
    """Fractions with all their digits."""
    detected: dict[str, Metrics] = {f"ood {name} by {found.score}": dict(found.metrics) for name, found in evaluation.ood.items()}
    rows: list[list[Cell]] = []
    for stage, metrics in (*_stages(evaluation).items(), *detected.items()):
        for key, estimate in metrics.items():
            if estimate is not None:
                floor = estimate.floor[:3] if estimate.floor else (None,) * 3
                numbers = (estimate.value, estimate.low, estimate.high, *floor, estimate.p_value)
                rows.append([evaluation.source, stage, key, *numbers, estimate.verdict])
    columns = ["source", "stage", "metric", "value", "low", "high", "floor_mean", "floor_low", "floor_high", "p_value", "verdict"]
    return DataTable(columns, rows)


def _for_people(evaluation: Evaluation) -> DataTable:
    """Percent where the metric has that unit; a column of each kind before and after calibration."""
    stages = _stages(evaluation)
    keys = [key for key in evaluation.metrics if any(metrics.get(key) for metrics in stages.values())]
    others = [metric_named(key).title for key in keys if metric_named(key).unit == ""]
    columns = [f"metric, % but {', '.join(others[:-1])} and {others[-1]}" if len(others) > 1 else "metric, %"]
    columns += [f"{name}, {stage}" if len(stages) > 1 else name for stage in stages for name in ESTIMATE_COLUMNS]
    rows = [[metric_named(key).title, *(cell for each in stages.values() for cell in estimate_cells(key, each.get(key)))] for key in keys]
    return DataTable(columns, rows)
