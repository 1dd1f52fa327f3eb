"""Recipes and resolved runs as tables, with the source of every value."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from rankmixup.config import flatten
from rankmixup.reports.export import DataTable, to_markdown
from rankmixup.runs import RECIPES, Constant, Run


def run_table(run: Run, sources: Mapping[str, str]) -> Table:
    """Every value of a run and where it comes from."""
    table = Table(title=f"Run {run.id}", title_justify="left")
    for heading in ("field", "value", "source"):
        table.add_column(heading, overflow="fold")
    for path, value in flatten(run.to_dict()).items():
        table.add_row(path, _shown(value), sources[path])
    return table


def recipe_tables() -> str:
    """All recipes in Markdown: one table for optimisation, one for the fields of methods; a cell is a value and its source."""
    columns = {name.replace("digits", "digits, synthetic"): recipe for name, recipe in RECIPES.items() if name != "synthetic"}
    recipes = list(columns.values())
    fields = _in_order(recipe.optimisation for recipe in recipes)
    settings = [
        (key, field)
        for key in _in_order(recipe.methods for recipe in recipes)
        for field in _in_order(recipe.methods.get(key, {}) for recipe in recipes)
    ]
    tables = {
        "optimisation": [[field, *(_cell(recipe.optimisation.get(field)) for recipe in recipes)] for field in fields],
        "method": [[f"{key} {field}", *(_cell(recipe.methods.get(key, {}).get(field)) for recipe in recipes)] for key, field in settings],
    }
    return "\n\n".join(to_markdown(DataTable([heading, *columns], rows)) for heading, rows in tables.items())


def _in_order(mappings: Any) -> list[str]:
    return list(dict.fromkeys(key for mapping in mappings for key in mapping))


def _cell(constant: Constant | None) -> str:
    return "-" if constant is None else f"{_shown(constant.value)} ({constant.source})"


def _shown(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return " ".join(map(_shown, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
