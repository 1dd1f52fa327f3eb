"""The settings of a sweep as a table."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from rankmixup.evaluation import Estimate
from rankmixup.evaluation.registry import metric_named
from rankmixup.experiments.sweep import Ranking
from rankmixup.reports.tables import plain_table, shown, shown_range

_SHOWN = ("accuracy", "nll", "ece")


def sweep_table(ranking: Ranking) -> RenderableType:
    """Every setting on validation samples, the best one on test samples."""
    keys = [ranking.metric, *(key for key in _SHOWN if key != ranking.metric)]
    first, *others = (metric_named(key).title for key in keys)
    table = plain_table("method", first, "interval", *others)

    def add(name: str, means: Mapping[str, Estimate], **style: Any) -> None:
        value, *rest = (shown(key, means[key].value if key in means else None) for key in keys)
        table.add_row(name, value, shown_range(ranking.metric, means.get(ranking.metric)), *rest, **style)

    for name, means in ranking.val.items():
        add(name, means)
    table.add_section()
    best = next(iter(ranking.val))
    add(f"{best}, on test", ranking.test or {}, style="bold")
    title = f"Validation, mean over {len(ranking.runs[best])} seeds and its 95 % interval, best {first} first"
    return Group(Text(title, style="bold"), table)
