"""rankmixup evaluate."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from rankmixup.cli.options import Calibration, Json, OODOptions, OptionalPath
from rankmixup.cli.output import answer, print_warnings, require_writable


@dataclass(kw_only=True)
class Evaluate(Calibration, OODOptions):
    """Compute metrics of a run's test set or of a file of scores, with confidence intervals, noise floors and verdicts.

    A file is npz, pt or safetensors with an array `logits` or `probs` [N, K] and an array `labels` [N], or a csv file with a column named
    label or target and columns logit_CLASS or prob_CLASS, or with one column for each class and no others (docs/score-files.md has all
    rules). The exit status is 1 if a condition of --fail-if holds.
    """

    source: tyro.conf.Positional[Path]
    """A run directory, or a file of scores."""
    calibrate_on: OptionalPath = None
    """A file of held-out scores to calibrate on; by default a run's own validation scores."""
    fail_if: tyro.conf.UseAppendAction[
        Annotated[tuple[str, ...], tyro.conf.arg(metavar="CONDITION", help_behavior_hint="(optional, repeatable)")]
    ] = ()
    """A condition such as `ece>3%`, `accuracy<0.9:high` or `calibrated.ece>0.02`: a name from `rankmixup list metrics` (with `calibrated.`
    before it for the value after calibration, or `ood.NAME.` for a set of --ood), < or >, a fraction or a percentage, and optionally :low
    or :high to compare that end of the interval."""
    html: OptionalPath = None
    """Write a report as one HTML file."""
    latex: OptionalPath = None
    """Write the table as LaTeX."""
    csv: OptionalPath = None
    """Write the table as csv."""
    json: Json = False


def run(options: Evaluate) -> int:
    """Run the command."""
    options.check(options.source, options.calibrate_on, *options.ood)
    require_writable(options.html, options.latex, options.csv)

    from rankmixup.evaluation.conditions import Condition, with_failures
    from rankmixup.reports.tables import evaluation_table

    conditions = [Condition.parse(text) for text in options.fail_if]
    source = options.open(options.source, options.calibrate_on)
    options.check_held_out(source.held_out is not None)
    ood, shared = options.read_ood(source.stored)
    with print_warnings():
        evaluation = options.evaluate(source, ood=ood, shared_classes=shared, score=options.score)
    evaluation = with_failures(evaluation, conditions)
    kinds: tuple[Literal["html", "latex", "csv"], ...] = ("html", "latex", "csv")
    for kind in kinds:
        if (path := getattr(options, kind)) is not None:
            evaluation.save(path, kind)
    answer(options.json, evaluation.to_dict, lambda: evaluation_table(evaluation))
    return 1 if evaluation.failed else 0
