"""A sweep: settings ranked by what they do on validation samples, and the best of them on test samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankmixup.evaluation import Estimate, over_seeds
from rankmixup.evaluation.registry import metric_named
from rankmixup.runs import Run, StoredRun

Means = dict[str, Estimate]
"""Mean over seeds of each metric that every seed has."""


@dataclass(frozen=True)
class Ranking:
    """Settings of a sweep, best first."""

    metric: str
    runs: dict[str, list[str]]
    """Ids of the runs of each setting."""
    val: dict[str, Means]
    """By setting, on validation samples."""
    test: Means | None
    """Of the best setting alone, on test samples; None if there is no setting at all."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""

        def plain(means: Means | None) -> dict[str, Any] | None:
            return None if means is None else {key: estimate.interval_dict() for key, estimate in means.items()}

        ranked = [{"setting": name, "runs": self.runs[name], "val": plain(means)} for name, means in self.val.items()]
        return {"ranked": ranked, "best": next(iter(self.val), None), "test": plain(self.test)}


def rank(planned: Mapping[str, Sequence[Run]], runs: Path, metric: str) -> Ranking:
    """Compare finished runs by the mean of `metric` on validation samples; a setting that does not have it comes last."""
    results = {name: [StoredRun.locate(runs, run).result().metrics for run in seeds] for name, seeds in planned.items()}
    means = {name: _means([each["val"] for each in seeds]) for name, seeds in results.items()}
    sign = -1.0 if metric_named(metric).higher_is_better else 1.0
    order = sorted(means, key=lambda name: (metric not in means[name], sign * means[name].get(metric, Estimate(0.0)).value))
    test = _means([each["test"] for each in results[order[0]]]) if order else None
    ids = {name: [run.id for run in seeds] for name, seeds in planned.items()}
    return Ranking(metric, ids, {name: means[name] for name in order}, test)


def _means(seeds: Sequence[Mapping[str, float | None]]) -> Means:
    columns = {key: [value for each in seeds if (value := each.get(key)) is not None] for key in seeds[0]}
    return {key: over_seeds(values) for key, values in columns.items() if len(values) == len(seeds)}
