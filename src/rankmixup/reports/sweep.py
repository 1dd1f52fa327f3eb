"""A sweep: settings in order of what they do on validation samples, and the first of them on test samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from rankmixup.evaluation import Estimate, over_seeds
from rankmixup.evaluation.registry import metric_named
from rankmixup.reports.tables import plain_table, shown, shown_range
from rankmixup.runs import Run, StoredRun

__all__ = ["Ranking", "rank", "sweep_table"]

_SHOWN = ("accuracy", "nll", "ece")


@dataclass(frozen=True)
class Ranking:
    """Settings of a sweep, best first."""

    metric: str
    settings: dict[str, dict[str, Any]]
    """By name: ids of its `runs`, and `val`, the mean over seeds of each metric with its interval."""
    test: dict[str, Any] | None
    """Of the best alone, the same on test samples; None if there is no setting at all."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        ranked = [{"setting": name, **entry} for name, entry in self.settings.items()]
        return {"ranked": ranked, "best": ranked[0]["setting"] if ranked else None, "test": self.test}


def rank(planned: Mapping[str, Sequence[Run]], runs: Path, metric: str) -> Ranking:
    """Compare finished runs by the mean of `metric` on validation samples; a setting that has none comes last."""
    results = {name: [StoredRun.locate(runs, run).result().metrics for run in seeds] for name, seeds in planned.items()}
    entries: dict[str, dict[str, Any]] = {
        name: {"runs": [run.id for run in planned[name]], "val": _means([each["val"] for each in seeds])} for name, seeds in results.items()
    }
    sign = -1.0 if metric_named(metric).higher_is_better else 1.0

    def place(name: str) -> tuple[bool, float]:
        entry = entries[name]["val"].get(metric)
        return (entry is None, 0.0 if entry is None else sign * entry["value"])

    order = sorted(entries, key=place)
    test = _means([each["test"] for each in results[order[0]]]) if order else None
    return Ranking(metric, {name: entries[name] for name in order}, test)


def _means(seeds: Sequence[Mapping[str, float | None]]) -> dict[str, Any]:
    """Of each metric that every seed has."""
    found = {}
    for key in seeds[0]:
        values = [value for each in seeds if (value := each.get(key)) is not None]
        if len(values) == len(seeds):
            found[key] = over_seeds(values).interval_dict()
    return found


def sweep_table(ranking: Ranking) -> RenderableType:
    """Every setting on validation samples, the best one on test samples."""
    others = [key for key in _SHOWN if key != ranking.metric]
    table = plain_table("method", metric_named(ranking.metric).title, "interval", *(metric_named(key).title for key in others))

    def add(name: str, metrics: Mapping[str, Any], **style: Any) -> None:
        chosen = metrics.get(ranking.metric) or {"value": None}
        rest = [shown(key, (metrics.get(key) or {"value": None})["value"]) for key in others]
        table.add_row(name, shown(ranking.metric, chosen["value"]), shown_range(ranking.metric, Estimate(**chosen)), *rest, **style)

    for name, entry in ranking.settings.items():
        add(name, entry["val"])
    table.add_section()
    best = next(iter(ranking.settings))
    add(f"{best}, on test", ranking.test or {}, style="bold")
    seeds = len(ranking.settings[best]["runs"])
    title = f"Validation, mean over {seeds} seeds and its 95 % interval, best {metric_named(ranking.metric).title} first"
    return Group(Text(title, style="bold"), table)
