"""Evaluations as files: a page, or a table for LaTeX, spreadsheets, Markdown and programs."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from rankmixup.evaluation.paired_tests import NO_TESTS, PairedTests
from rankmixup.evaluation.pooling import pooled
from rankmixup.evaluation.registry import metric_named
from rankmixup.evaluation.results import Evaluation, FileKind, Metrics, all_metrics_of
from rankmixup.reports.entry import ReportEntry
from rankmixup.reports.export import Cell, DataTable, to_csv, to_latex, write_kind, write_text
from rankmixup.reports.groups import class_rows, group_rows
from rankmixup.reports.html import distinct, render_report
from rankmixup.reports.markdown import evaluation_markdown
from rankmixup.reports.tables import ESTIMATE_COLUMNS, estimate_cells
from rankmixup.runs import StoredRun
from rankmixup.runs.naming import model_names

_KINDS: dict[str, Callable[[Evaluation], str]] = {
    "html": lambda evaluation: render_report([ReportEntry.of(evaluation)]),
    "json": lambda evaluation: json.dumps(evaluation.to_dict(), indent=2, allow_nan=False),
    "csv": lambda evaluation: to_csv(_for_programs(evaluation)),
    "latex": lambda evaluation: to_latex(_for_people(evaluation)),
    "markdown": evaluation_markdown,
    "group-csv": lambda evaluation: to_csv(group_rows(evaluation)),
    "class-csv": lambda evaluation: to_csv(class_rows(evaluation)),
}


def write_evaluation(evaluation: Evaluation, path: Path, kind: FileKind | None = None) -> Path:
    """Write one evaluation; without `kind` the suffix of `path` says which."""
    return write_kind(evaluation, path, kind, _KINDS)


def page_entries(evaluations: Sequence[Evaluation], runs: Sequence[StoredRun | None], *, each: bool = False) -> list[ReportEntry]:
    """The models of a page with the names that they have there; `runs` are where they come from, in the same order.

    Runs that differ by their seed alone are one model, unless `each` is to stand for itself.
    """
    stored = {place: run for place, run in enumerate(runs) if run is not None}
    names = model_names({place: run.run for place, run in stored.items()}, each=each)
    models: dict[str | int, list[int]] = {}
    for place in range(len(evaluations)):
        models.setdefault(names.get(place, place), []).append(place)
    entries = []
    for name, places in models.items():
        of_seed = {stored[place].run.seed: evaluations[place] for place in places if place in stored}
        evaluation = pooled(of_seed, name) if isinstance(name, str) else evaluations[places[0]]
        members = sorted((stored[place] for place in places if place in stored), key=lambda each: each.run.seed)
        entries.append(ReportEntry.of(evaluation, members))
    return distinct(entries)


def write_page(path: Path, entries: Sequence[ReportEntry], tests: PairedTests = NO_TESTS) -> None:
    """One HTML page about all models, and the paired tests between them."""
    write_text(path, render_report(entries, tests=tests))


def _stages(evaluation: Evaluation) -> dict[str, Metrics]:
    """Metrics before and, if there was one, after calibration."""
    calibration = evaluation.calibration
    after = {f"after {calibration.method}": all_metrics_of(calibration)} if calibration else {}
    return {"before": all_metrics_of(evaluation), **after}


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
    keys = [key for key in stages["before"] if any(metrics.get(key) for metrics in stages.values())]
    others = [metric_named(key).title for key in keys if metric_named(key).unit == ""]
    columns = [f"metric, % but {', '.join(others[:-1])} and {others[-1]}" if len(others) > 1 else "metric, %"]
    columns += [f"{name}, {stage}" if len(stages) > 1 else name for stage in stages for name in ESTIMATE_COLUMNS]
    rows = [[metric_named(key).title, *(cell for each in stages.values() for cell in estimate_cells(key, each.get(key)))] for key in keys]
    return DataTable(columns, rows, f"{evaluation.source}: {evaluation.n:,} samples, {evaluation.num_classes} classes, 95 % intervals")
