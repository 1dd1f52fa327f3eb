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
    found: dict[str, dict[str, Mapping[str, Constant]]] = {
        "optimisation": {name: recipe.optimisation for name, recipe in columns.items()},
        # The recipe of fine-tuning leaves methods as the data set's has them.
        "method": {name: flatten(recipe.methods, " ") for name, recipe in columns.items() if recipe.methods},
    }
    tables = [
        DataTable(
            [heading, *recipes],
            [
                [field, *(_cell(each.get(field)) for each in recipes.values())]
                for field in dict.fromkeys(itertools.chain(*recipes.values()))
            ],
        )
        for heading, recipes in found.items()
    ]
    return "\n\n".join(map(to_markdown, tables))


def _cell(constant: Constant | None) -> str:
    return "-" if constant is None else f"{_shown(constant.value)} ({constant.source})"


def _shown(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return " ".join(map(_shown, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
