"""rankmixup evaluate."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from rankmixup.cli.output import console, require_writable
from rankmixup.cli.parsing import parse
from rankmixup.cli.sources import (
    Metrics,
    OptionalPath,
    UnknownOptions,
    open_source,
    read_ood,
    spoken_warnings,
)
from rankmixup.errors import require


@dataclass(kw_only=True)
class Evaluate(Metrics, UnknownOptions):
    """Metrics with intervals, noise floors and verdicts, of a run's test set or of scores from anywhere.

    A file is npz, pt or safetensors with an array `logits` or `probs` [N, K] and an array `labels` [N], or a csv with a column named label
    or target and columns logit_CLASS or prob_CLASS, or one for each class and no others (docs/score-files.md has all rules).
    Exit status 1 if a condition of --fail-if holds.
    """

    source: tyro.conf.Positional[Path]
    """A run directory, or a file of scores."""
    calibrate_on: OptionalPath = None
    """A file of held-out scores to calibrate on; a run has its own validation scores."""
    calibrate_with: Literal["temperature", "vector", "ensemble-temperature", "isotonic", "histogram"] = "temperature"
    """How scores are calibrated."""
    objective: Literal["nll", "ece-grid"] = "nll"
    """How a temperature is fitted: maximum likelihood, or the paper's grid search for the lowest ECE."""
    fail_if: tyro.conf.UseAppendAction[
        Annotated[tuple[str, ...], tyro.conf.arg(metavar="CONDITION", help_behavior_hint="(optional, repeatable)")]
    ] = ()
    """As `ece>3%`, `accuracy<0.9:high` or `calibrated.ece>0.02`: a metric by its key in the JSON (with `calibrated.` for its value after
    calibration, or `ood.NAME.` for a set of --ood), < or >, a fraction or a percentage, and :low or :high for that end of the interval."""
    html: OptionalPath = None
    """Write a report of one file that opens in any browser."""
    latex: OptionalPath = None
    """Write the table for LaTeX."""
    csv: OptionalPath = None
    """Write the table as csv."""
    json: bool = False
    """Print one JSON object on standard output, and nothing else there."""


def run(argv: list[str]) -> int:
    """Parse and run."""
    options = parse(Evaluate, argv, prog="rankmixup evaluate")
    options.check(options.source, options.calibrate_on, *options.ood)
    require_writable(options.html, options.latex, options.csv)

    from rankmixup.evaluation import evaluate_scores
    from rankmixup.evaluation.conditions import Condition, with_failures
    from rankmixup.reports.tables import evaluation_table

    conditions = [Condition.parse(text) for text in options.fail_if]
    source = open_source(options.source, options, options.calibrate_on)
    asked = options.calibrate_with != "temperature" or options.objective != "nll"
    require(source.held_out is not None or not asked, "--calibrate-with and --objective must go with --calibrate-on where there is no run")
    unknown = read_ood(options.ood, options, source.stored)
    with spoken_warnings():
        evaluation = evaluate_scores(
            source.test,
            source.held_out,
            source=source.name,
            fitted_on=source.fitted_on,
            protocol=source.protocol,
            calibrate_with=options.calibrate_with,
            objective=options.objective,
            ood={name: samples.scores for name, samples in unknown.items()},
            score=options.score,
            num_bins=options.num_bins,
            replicates=options.replicates,
            seed=options.seed,
            shared_classes={name: samples.shared_classes for name, samples in unknown.items()},
        )
    evaluation = with_failures(evaluation, conditions)
    outputs: list[tuple[Literal["html", "latex", "csv"], Path | None]] = [
        ("html", options.html),
        ("latex", options.latex),
        ("csv", options.csv),
    ]
    for kind, path in outputs:
        if path is not None:
            evaluation.save(path, kind)
    if options.json:
        print(json.dumps(evaluation.to_dict(), allow_nan=False))
    else:
        console().print(evaluation_table(evaluation))
    return 1 if evaluation.failed else 0
