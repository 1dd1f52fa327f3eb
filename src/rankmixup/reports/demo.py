"""What the demonstration shows: one table, two figures and a page."""

from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from rankmixup.evaluation import Estimate, Evaluation, evaluate_scores
from rankmixup.evaluation.diagrams import lambda_curve, reliability
from rankmixup.evaluation.results import Metrics
from rankmixup.evaluation.significance import metrics_over_seeds
from rankmixup.reports.figures import confidence_by_lambda_figure, reliability_figure, save_figure
from rankmixup.reports.tables import plain_table
from rankmixup.runs import StoredRun

READING = (
    "noise: noise floor, the mean ECE of perfectly calibrated models with the same confidences. A run is called miscalibrated if fewer "
    "than 5 % of such models have an ECE as large. T: temperature, fitted by NLL on validation data. In the figures, a hatched gap below "
    "the diagonal is overconfidence, above it underconfidence; RankMixup's hypothesis holds if confidence rises with λ and is highest for "
    "raw samples (open markers)."
)
"""What to read from table and figures."""


def demo_evaluations(results: dict[str, list[StoredRun]]) -> dict[str, list[Evaluation]]:
    """Each run on its test set, before and after a temperature fitted on its validation set."""
    return {
        name: [
            evaluate_scores(run.scores("test"), run.scores("val"), source=f"{name}, seed {run.run.seed}", fitted_on="val") for run in runs
        ]
        for name, runs in results.items()
    }


def demo_table(evaluations: dict[str, list[Evaluation]]) -> RenderableType:
    """Each method before and after temperature scaling: means over seeds, the interval of ECE, noise floor and verdict."""
    seeds = max(len(each) for each in evaluations.values())
    title = f"digits, test set, %, mean and 95 % interval over {seeds} seeds" if seeds > 1 else "digits, test set, %, one seed"
    table = plain_table("method", "accuracy", "ECE", "interval", "noise", "OE", "UE", "verdict")
    for name, runs in evaluations.items():
        calibrated = [each.calibration.metrics for each in runs if each.calibration]
        table.add_row(name, *_cells(metrics_over_seeds([each.metrics for each in runs])))
        table.add_row("  with T", *_cells(metrics_over_seeds(calibrated)), end_section=True)
    return Group(Text(title, style="bold"), table)


def _cells(metrics: Metrics) -> list[str]:
    accuracy, error, over, under = (_percent(each.value if each else None) for each in map(metrics.get, ("accuracy", "ece", "oe", "ue")))
    ece = metrics["ece"] or Estimate(0.0)
    interval = f"{_percent(max(0.0, ece.low or 0.0))} to {_percent(ece.high or 0.0)}"
    return [accuracy, error, interval, _percent(ece.floor and ece.floor.mean), over, under, ece.verdict or ""]


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}"


def demo_figures(results: dict[str, list[StoredRun]], output: Path) -> list[Path]:
    """Reliability diagrams, and confidence against lambda; as PNG and SVG."""
    tests = {name: [run.scores("test") for run in stored] for name, stored in results.items()}
    curves = {}
    for name, stored in results.items():
        mixed = ((run.mixes(), scores.logits) for run, scores in zip(stored, tests[name], strict=True))
        if parts := [(each.logits, each.lam, raw) for each, raw in mixed if each is not None]:
            curves[name] = lambda_curve(parts)
    bins = {name: reliability(runs) for name, runs in tests.items()}
    output.mkdir(parents=True, exist_ok=True)
    figures = {"reliability": reliability_figure(bins), "confidence-against-lambda": confidence_by_lambda_figure(curves)}
    return [path for name, figure in figures.items() for path in save_figure(figure, output / name)]
