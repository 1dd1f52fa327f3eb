"""rankmixup evaluate."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from rankmixup.cli.group_options import GroupOptions
from rankmixup.cli.options import AcceptAt, Evaluating, Json, OODOptions, OptionalPath, Source, data_source
from rankmixup.cli.output import answer
from rankmixup.cli.outputs import Conditions, Outputs
from rankmixup.errors import InvalidInput, one_line, require


@dataclass(kw_only=True)
class Evaluate(Outputs, Evaluating, OODOptions, GroupOptions):
    """Compute metrics of a run's test set or of a file of scores, with confidence intervals, noise floors and verdicts.

    A file is npz, pt or safetensors with an array `logits` or `probs` [N, K] and an array `labels` [N], or a csv file with a column named
    label or target and columns logit_CLASS or prob_CLASS, or with one column for each class and no others
    (docs/reference/score-files.md has all rules). For two classes the scores of class 1 are enough: an array [N], or one column.
    The exit status is 1 if a condition of --fail-if holds.
    """

    source: tyro.conf.Positional[Path]
    """A run directory, a file of scores, or, with --on, a folder written by `rankmixup export`."""
    on: Annotated[str | None, tyro.conf.arg(metavar="DATA", help_behavior_hint="(optional)")] = None
    """Labelled data that the network of the run or exported folder predicts instead of the run's test set: folder:PATH, npz:PATH or the
    name of a data set, whose test samples are taken. Classes are matched by name."""
    strict: bool = False
    """Refuse data of --on that hold samples which the run was trained or validated on; else a warning counts them, and the groups of
    `overlap` have the metrics of the others."""
    calibrate_on: OptionalPath = None
    """A file of held-out scores to calibrate on; by default a run's own validation scores."""
    fail_if: Conditions = ()
    """A condition such as `ece>3%`, `accuracy<0.9:high` or `calibrated.ece>0.02`: a name from `rankmixup list metrics` (with `calibrated.`
    before it for the value after calibration, `ood.NAME.` for a set of --ood, or `groups.NAME.` for any group of a --group), or one of
    `positive.observed_over_expected`, `positive.intercept`, `positive.slope`, `positive.ece` and `positive.auroc` of the positive class; <
    or >; a fraction or a percentage; and optionally :low or :high to compare that end of the interval."""
    accept_at: AcceptAt = None
    """Find the confidence above which predictions have this accuracy: chosen on the held-out scores, checked on the test scores."""
    json: Json = False

    @property
    def reads_data(self) -> bool:
        """Whether a data set is read."""
        return super().reads_data or self.on is not None

    def open_all(self) -> Source:
        """The scores to evaluate."""
        if self.on is None:
            require(not self.strict, "--strict must go with --on, got none")
            exported = (self.source / "config.json").is_file() and not (self.source / "run.json").is_file()
            require(not exported, f"{self.source} is an exported folder, which has no test scores: --on must name data to evaluate it on")
            return self.open(self.source, self.calibrate_on)
        require(self.source.is_dir(), f"--on must go with a run or an exported folder, got {self.source}")
        data = data_source(self.on, "--on")
        if data is None:
            raise InvalidInput(f"--on must be a data set, folder:PATH or npz:PATH, got {self.on!r}")
        from rankmixup.deploy import load

        is_run = (self.source / "run.json").is_file()
        chosen = self.calibrate_with != "temperature" or self.objective is not None
        rule = "--calibrate-with and --objective must go with --calibrate-on for an exported folder, whose calibrator is fitted"
        require(is_run or not chosen or self.calibrate_on is not None, f"{rule}, got none")
        model = load(self.source, calibrate_with=None if is_run else "temperature")
        scores, overlap = model.scores_and_overlap(data, self.data_root, download=self.download, strict=self.strict)
        name = one_line(f"{self.source} on {self.on}")
        if model.calibrator is not None and self.calibrate_on is None:  # of a folder, which has no validation scores
            return Source(name, scores, model.calibrator, model.calibrator.report_.split, threshold=model.threshold)
        if isinstance(model.origin.place, Path):
            held_out = None if self.calibrate_on is None else self.read(self.calibrate_on)
            return Source(
                name, scores, held_out, self.calibrate_on.name if self.calibrate_on else "", threshold=None if held_out else model.threshold
            )
        return dataclasses.replace(self.open(self.source, self.calibrate_on), name=name, test=scores, groups=overlap)


def run(options: Evaluate) -> int:
    """Run the command."""
    options.check(options.source, options.calibrate_on, *options.ood)
    require(bool(options.group) or options.group_csv is None, "--group-csv must go with --group, got none")
    options.check_outputs(options.source, options.calibrate_on, *options.ood_files, *options.group_files)

    from rankmixup.evaluation.conditions import Condition, with_failures
    from rankmixup.reports.tables import evaluation_table

    conditions = [Condition.parse(text) for text in options.fail_if]
    source = options.open_all()
    options.check_held_out(source.held_out is not None)
    ood, shared = options.read_ood(source.stored)
    groups = {**source.groups, **options.read_groups(options.source if options.source.is_file() else None)}
    more = {"accept_at": options.accept_at or source.threshold, "groups": groups}
    evaluation = options.evaluate(source, ood=ood, shared_classes=shared, score=options.score, **more)
    evaluation = with_failures(evaluation, conditions)
    options.write(evaluation)
    answer(options.json, evaluation.to_dict, lambda: evaluation_table(evaluation))
    return 1 if evaluation.failed else 0
