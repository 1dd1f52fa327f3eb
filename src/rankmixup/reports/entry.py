"""What a report is told about each model."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from rankmixup.config import flatten
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import Evaluation, Scores
from rankmixup.evaluation.results import Metrics, all_metrics_of
from rankmixup.runs import StoredRun
from rankmixup.runs.records import MixedPredictions


@dataclass(frozen=True)
class ReportEntry:
    """One model in a report: its evaluation, which must hold its scores, and where it comes from."""

    name: str
    evaluation: Evaluation
    protocol: Mapping[str, Any] = field(default_factory=dict)
    """How the model came about, as names and values (or names and further such mappings); see `run_protocol`."""
    mixed: MixedPredictions | None = None
    dials: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Fields of the method that feedback has set, with their values in each epoch."""

    @classmethod
    def of(cls, evaluation: Evaluation, runs: Sequence[StoredRun] = ()) -> "ReportEntry":
        """An evaluation, of `runs` if it is of some: one, or several that differ by their seed alone."""
        dials: dict[str, list[float]] = {}
        for run in runs:
            history, seed = [record.dial for record in run.history()], f", seed {run.run.seed}" if len(runs) > 1 else ""
            for name in run.run.method.auto_dials:
                dials[name + seed] = [value for dial in history if (value := dial.get(name)) is not None]
        mixes = [mixed for run in runs if (mixed := run.mixes()) is not None]
        mixed = MixedPredictions(torch.cat([each.logits for each in mixes]), torch.cat([each.lam for each in mixes])) if mixes else None
        return cls(evaluation.source, evaluation, _merged([flatten(run_protocol(run), ": ") for run in runs]), mixed, dials)

    @property
    def scores(self) -> Scores:
        """Scores of the test set, before calibration."""
        if self.evaluation.test is None:
            raise InvalidInput(f"a page must be made from an evaluation that holds its scores, {self.name!r} does not")
        return self.evaluation.test

    @property
    def before(self) -> Metrics:
        """Metrics before calibration, those of the positive class first if there is one."""
        return all_metrics_of(self.evaluation)

    @property
    def after(self) -> Metrics | None:
        """The same after calibration, if there was one."""
        return all_metrics_of(self.evaluation.calibration) if self.evaluation.calibration else None


def _merged(protocols: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What runs that are one model have in common, and where they differ what each has."""
    values = {name: [each.get(name) for each in protocols] for name in dict.fromkeys(itertools.chain(*protocols))}
    return {name: found[0] if all(each == found[0] for each in found) else "; ".join(map(str, found)) for name, found in values.items()}


def run_protocol(stored: StoredRun) -> dict[str, Any]:
    """What a run directory says of itself: configuration, sizes and hashes of its splits, selection, versions."""
    selection, splits, environment = stored.result().selection, stored.splits(), stored.environment()
    return {
        "run": stored.run.id,
        **stored.run.to_dict(),
        # Without paths, which are of no use on another machine.
        **{part: _without_path(each.to_dict()) for part in ("data", "weights") if (each := getattr(stored.run, part)) is not None},
        "selection": f"{selection.rule} on validation, epoch {selection.epoch}",
        **({"tuning": tuning} if (tuning := stored.result().content.get("tuning")) else {}),
        "splits": {name: f"{part.size:,} samples, sha256 {part.sha256[:12]}" for name, part in (splits.parts if splits else {}).items()},
        "python": environment and environment.python,
        "platform": environment and environment.platform,
        "versions": environment.packages if environment else {},
    }


def _without_path(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != "path"}
