"""What the demonstration shows: one table, two figures and a page."""

from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from rankmixup.evaluation import Estimate, Evaluation, evaluate_scores, over_seeds
from rankmixup.evaluation.diagrams import lambda_curve, reliability
from rankmixup.evaluation.results import Metrics
from rankmixup.evaluation.uncertainty import MISCALIBRATED
from rankmixup.reports.figures import confidence_by_lambda_figure, reliability_figure, save_figure
from rankmixup.reports.tables import plain_table
from rankmixup.runs import StoredRun

__all__ = ["READING", "demo_evaluations", "demo_figures", "demo_table"]

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
            evaluate_scores(run.scores("test"), run.scores("val"), source=f"{name}, seed {run.run.seed}", fitted_on="val") for run in stored
        ]
        for name, stored in results.items()
    }


def demo_table(evaluations: dict[str, list[Evaluation]]) -> RenderableType:
    """Each method before and after temperature scaling: means over seeds, the interval of ECE, noise floor and verdict."""
    seeds = max(len(each) for each in evaluations.values())
    title = f"digits, test set, %, mean and 95 % interval over {seeds} seeds" if seeds > 1 else "digits, test set, %, one seed"
    table = plain_table("method", "accuracy", "ECE", "interval", "noise", "OE", "UE", "verdict")
    for name, runs in evaluations.items():
        table.add_row(name, *_cells([each.metrics for each in runs]))
        table.add_row("  with T", *_cells([each.calibration.metrics for each in runs if each.calibration]), end_section=True)
    return Group(Text(title, style="bold"), table)


def _cells(runs: list[Metrics]) -> list[str]:
    def estimates(key: str) -> list[Estimate]:
        return [estimate for metrics in runs if (estimate := metrics[key]) is not None]

    def values(key: str) -> list[float]:
        return [estimate.value for estimate in estimates(key)]

    eces = estimates("ece")
    over = over_seeds(values("ece"))
    # One seed has no spread; what it has is the interval over its test samples.
    ends = over if over.low is not None else eces[0]
    beyond = sum(ece.verdict == MISCALIBRATED for ece in eces)
    verdict = (eces[0].verdict or "") if beyond in (0, len(runs)) else f"miscalibrated in {beyond} of {len(runs)} seeds"
    return [
        _mean(values("accuracy")),
        _mean(values("ece")),
        f"{100 * max(0.0, ends.low or 0.0):.1f} to {100 * (ends.high or 0.0):.1f}",
        _mean([ece.floor.mean for ece in eces if ece.floor]),
        _mean(values("oe")),
        _mean(values("ue")),
        verdict,
    ]


def _mean(values: list[float]) -> str:
    return f"{100 * sum(values) / len(values):.1f}"


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
