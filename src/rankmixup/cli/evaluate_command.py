"""rankmixup evaluate."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from rankmixup.cli.parsing import parse


@dataclass
class Evaluate:
    """Metrics of a run's test set, or of an npz with an array `logits` or `probs` [N, K] and an array `labels` [N]."""

    source: tyro.conf.Positional[Path]
    """A run directory, or an npz file."""
    calibrate_on: Path | None = None
    """An npz of held-out scores to fit a temperature on; a run has its own validation scores."""
    objective: Literal["nll", "ece-grid"] = "nll"
    """How the temperature is fitted: maximum likelihood, or the paper's grid search for the lowest ECE."""
    num_bins: int = 15
    """Bins of every binned metric."""
    json: bool = False
    """Print one JSON object on standard output, and nothing else there."""


def run(argv: list[str]) -> int:
    """Parse and run."""
    options = parse(Evaluate, argv, prog="rankmixup evaluate")

    from rich.console import Console

    from rankmixup.reports import evaluate_scores
    from rankmixup.reports.tables import evaluation_table
    from rankmixup.runs import Scores, StoredRun

    held_out, fitted_on = None, ""
    if options.source.is_dir():
        stored = StoredRun.open(options.source)
        test, held_out, fitted_on = stored.predictions("test"), stored.predictions("val"), "val"
    else:
        test = Scores.read(options.source)
    if options.calibrate_on is not None:
        held_out, fitted_on = Scores.read(options.calibrate_on), options.calibrate_on.name
    evaluation = evaluate_scores(
        test, held_out, source=str(options.source), fitted_on=fitted_on, objective=options.objective, num_bins=options.num_bins
    )
    if options.json:
        print(json.dumps(evaluation.to_dict(), allow_nan=False))
    else:
        Console().print(evaluation_table(evaluation))
    return 0
