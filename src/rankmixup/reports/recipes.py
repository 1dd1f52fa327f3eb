"""Recipes and resolved runs as tables, with the source of every value."""

import itertools
from collections.abc import Mapping
from typing import Any

from rich.table import Column, Table

from rankmixup.config import flatten
from rankmixup.reports.export import DataTable, to_markdown
from rankmixup.runs import RECIPES, Constant, Run


def run_table(run: Run, sources: Mapping[str, str]) -> Table:
    """Every value of a run and where it comes from."""
    columns = (Column(heading, overflow="fold") for heading in ("field", "value", "source"))
    table = Table(*columns, title=f"Run {run.id}", title_justify="left")
    for path, value in flatten(run.to_dict()).items():
        table.add_row(path, _shown(value), sources[path])
    return table


def recipe_tables() -> str:
    """All recipes in Markdown: one table for optimisation, one for the fields of methods; a cell is a value and its source."""
    columns = {name.replace("digits", "digits, synthetic"): recipe for name, recipe in RECIPES.items() if name != "synthetic"}
    found: dict[str, list[Mapping[str, Constant]]] = {
        "optimisation": [recipe.optimisation for recipe in columns.values()],
        "method": [flatten(recipe.methods, " ") for recipe in columns.values()],
    }
    rows = {
        heading: [[name, *(_cell(each.get(name)) for each in recipes)] for name in dict.fromkeys(itertools.chain(*recipes))]
        for heading, recipes in found.items()
    }
    return "\n\n".join(to_markdown(DataTable([heading, *columns], filled)) for heading, filled in rows.items())


def _cell(constant: Constant | None) -> str:
    return "-" if constant is None else f"{_shown(constant.value)} ({constant.source})"


def _shown(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return " ".join(map(_shown, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
