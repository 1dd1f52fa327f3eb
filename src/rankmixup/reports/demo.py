"""What the demonstration shows: one table and two figures."""

from collections.abc import Sequence
from pathlib import Path

import torch
from rich.table import Table

from rankmixup.ops import confidence
from rankmixup.reports.figures import confidence_by_lambda_figure, reliability_figure, save_figure
from rankmixup.reports.tables import seeds_table
from rankmixup.runs import StoredRun
from rankmixup.runs.files import read_npz

__all__ = ["READING", "demo_figures", "demo_table"]

READING = (
    "ECE, T: after temperature scaling, fitted by NLL on validation. In the figures a hatched gap below the diagonal is "
    "overconfidence, above it underconfidence; RankMixup's hypothesis holds where confidence rises with λ and raw samples "
    "(open markers) come out on top."
)
"""What to read from table and figures, in one line."""


def demo_table(results: dict[str, list[StoredRun]]) -> Table:
    """Mean and standard deviation over seeds, in percent."""
    keys = {"accuracy": "accuracy", "ECE": "ece", "AECE": "aece", "OE": "oe", "UE": "ue"}
    rows: dict[str, Sequence[Sequence[float]]] = {}
    for name, stored in results.items():
        test = [run.result["metrics"]["test"] for run in stored]
        scaled = [run.result["temperature"]["nll"]["test"]["ece"] for run in stored]
        rows[name] = [*([metrics[key] for metrics in test] for key in keys.values()), scaled]
    seeds = max(len(stored) for stored in results.values())
    return seeds_table(
        "digits, test set, %, " + (f"mean ± standard deviation over {seeds} seeds" if seeds > 1 else "one seed"),
        [*keys, "ECE, T"],
        rows,
    )


def demo_figures(results: dict[str, list[StoredRun]], output: Path) -> list[Path]:
    """Reliability diagrams, and confidence against lambda; as PNG and SVG."""
    tests = {name: [run.predictions("test") for run in stored] for name, stored in results.items()}
    mixed = {name: [read_npz(run.predictions_path("mixed"), "logits", "lam") for run in stored] for name, stored in results.items()}
    pooled = {
        name: (
            confidence(torch.cat([torch.from_numpy(arrays["logits"]) for arrays in parts])),
            torch.cat([torch.from_numpy(arrays["lam"]) for arrays in parts]),
        )
        for name, parts in mixed.items()
    }
    raw = {name: torch.cat([scores.probs.amax(dim=1) for scores in runs]).mean().item() for name, runs in tests.items()}
    output.mkdir(parents=True, exist_ok=True)
    figures = {"reliability": reliability_figure(tests), "confidence-against-lambda": confidence_by_lambda_figure(pooled, raw)}
    return [path for name, figure in figures.items() for path in save_figure(figure, output / name)]
