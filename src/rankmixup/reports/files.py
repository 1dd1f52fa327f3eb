"""Evaluations as files: a page, or a table for LaTeX, spreadsheets, Markdown and programs."""

from collections.abc import Sequence
from pathlib import Path

from rankmixup.errors import InvalidInput, require
from rankmixup.evaluation.registry import metric_named
from rankmixup.evaluation.results import Evaluation, FileKind, Metrics
from rankmixup.files import write_atomic, write_json
from rankmixup.reports.entry import ReportEntry, run_protocol
from rankmixup.reports.export import Cell, DataTable, to_csv, to_latex, to_markdown
from rankmixup.reports.tables import estimate_cells
from rankmixup.runs import StoredRun

_SUFFIXES: dict[str, FileKind] = {".html": "html", ".json": "json", ".csv": "csv", ".tex": "latex", ".md": "markdown"}


def write_evaluation(evaluation: Evaluation, path: Path, kind: FileKind | None = None) -> Path:
    """Write one evaluation; without `kind` the suffix of `path` says which."""
    if kind is None and path.suffix not in _SUFFIXES:
        raise InvalidInput(f"a report's suffix must be one of {', '.join(_SUFFIXES)}, got {path.name!r}")
    require(path.parent.is_dir(), f"{path} must be in a folder that exists, {path.parent} does not")
    match kind or _SUFFIXES[path.suffix]:
        case "html":
            write_page(path, [evaluation])
        case "json":
            write_json(path, evaluation.to_dict())
        case "csv":
            _write_text(path, to_csv(_for_programs(evaluation)))
        case "latex":
            _write_text(path, to_latex(_for_people(evaluation)))
        case "markdown":
            _write_text(path, to_markdown(_for_people(evaluation)))
    return path


def write_page(path: Path, evaluations: Sequence[Evaluation], runs: Sequence[StoredRun | None] = ()) -> None:
    """One HTML page about all evaluations; `runs` are where they come from, in the same order."""
    from rankmixup.reports.html import write_report

    stored = runs or [None] * len(evaluations)
    entries = [_entry(evaluation, run) for evaluation, run in zip(evaluations, stored, strict=True)]
    write_report(entries, path, num_bins=evaluations[0].num_bins if evaluations else 15)


def _entry(evaluation: Evaluation, run: StoredRun | None) -> ReportEntry:
    if evaluation.test is None:
        raise InvalidInput(f"a page must be made from an evaluation that holds its scores, {evaluation.source!r} does not")
    mixed = None if run is None else run.mixes()
    return ReportEntry(
        evaluation.source,
        evaluation,
        evaluation.test,
        evaluation.calibrated,
        class_names=evaluation.test.class_names,
        protocol={} if run is None else run_protocol(run),
        mixed=None if mixed is None else (mixed.logits, mixed.lam),
        ood=evaluation.ood_scores,
    )


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
                floor = list(estimate.floor[:3]) if estimate.floor else [None] * 3
                numbers = [estimate.value, estimate.low, estimate.high, *floor, estimate.p_value]
                rows.append([evaluation.source, stage, key, *numbers, estimate.verdict])
    columns = ["source", "stage", "metric", "value", "low", "high", "floor_mean", "floor_low", "floor_high", "p_value", "verdict"]
    return DataTable(columns, rows)


def _for_people(evaluation: Evaluation) -> DataTable:
    """Percent where the metric has that unit; a column of each kind before and after calibration."""
    stages = _stages(evaluation)
    keys = [key for key in evaluation.metrics if any(metrics.get(key) for metrics in stages.values())]
    others = [metric_named(key).title for key in keys if metric_named(key).unit == ""]
    columns = [f"metric, % but {', '.join(others[:-1])} and {others[-1]}" if len(others) > 1 else "metric, %"]
    for stage in stages:
        columns += [f"{name}, {stage}" if len(stages) > 1 else name for name in ("value", "95 % interval", "noise floor", "p", "verdict")]
    rows = [[metric_named(key).title, *(cell for each in stages.values() for cell in estimate_cells(key, each.get(key)))] for key in keys]
    return DataTable(columns, rows)


def _write_text(path: Path, text: str) -> None:
    write_atomic(path, (text.rstrip("\n") + "\n").encode(errors="backslashreplace"))
