"""Tables for people: rich in a terminal, the same in plain text; percent, where programs get fractions."""

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from rankmixup.reports.evaluation import KEYS, Evaluation

__all__ = ["TITLES", "evaluation_table", "listing", "seeds_table", "to_text"]

TITLES = {"accuracy": "accuracy", "nll": "NLL", "brier": "Brier", "ece": "ECE", "aece": "AECE", "mce": "MCE", "oe": "OE", "ue": "UE"}
"""How people call each metric."""


def evaluation_table(evaluation: Evaluation) -> Table:
    """One row for each metric, before and after calibration."""
    table = Table(title=f"{evaluation.source}: {evaluation.n:,} samples, {evaluation.num_classes} classes", title_justify="left")
    table.add_column("metric")
    table.add_column("value", justify="right")
    calibration = evaluation.calibration
    if calibration:
        temperature = calibration["parameters"]["temperature"]
        state = "" if calibration["converged"] else ", no optimum"
        table.add_column(f"after T = {temperature:.3f}\n({calibration['objective']}, {calibration['fitted_on']}{state})", justify="right")
    table.add_column("noise floor", justify="right")
    table.add_column("verdict")
    for key in KEYS:
        entry = evaluation.metrics[key]
        if entry is None:
            continue
        cells = [TITLES.get(key, key), _shown(key, entry)]
        if calibration:
            cells.append(_shown(key, calibration["metrics"][key]))
        floor = entry["floor"]
        cells.append(f"{100 * floor['mean']:.2f} ({100 * floor['low']:.2f} to {100 * floor['high']:.2f})" if floor else "")
        table.add_row(*cells, f"{entry['verdict']} (p = {entry['p_value']:.3f})" if entry["verdict"] else "")
    return table


def _shown(key: str, entry: dict[str, Any]) -> str:
    return f"{entry['value']:.4f}" if key in ("nll", "brier") else f"{100 * entry['value']:.2f} %"


def seeds_table(title: str, columns: Sequence[str], rows: dict[str, Sequence[Sequence[float]]]) -> Table:
    """Mean and spread over seeds: one row for each method, one list of fractions for each column."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0, pad_edge=False, collapse_padding=True)
    table.add_column("method", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True, min_width=8)
    for name, cells in rows.items():
        table.add_row(name, *[_mean_and_spread(values) for values in cells])
    return table


def _mean_and_spread(values: Sequence[float]) -> str:
    mean = sum(values) / len(values)
    if len(values) == 1:
        return f"{100 * mean:.1f}"
    deviation = (sum((value - mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5
    return f"{100 * mean:.1f} ±{100 * deviation:.1f}"


def listing(kind: str, summaries: dict[str, str]) -> Table:
    """Names with one line about each."""
    table = Table(title=kind, title_justify="left", show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for name, summary in summaries.items():
        table.add_row(name, summary)
    return table


def to_text(table: Table, width: int = 110) -> str:
    """A table as plain text."""
    console = Console(width=width, no_color=True, highlight=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get().rstrip()
