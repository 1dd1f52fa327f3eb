"""Several models by several metrics in one table."""

from collections.abc import Mapping

from rankmixup.evaluation.registry import metric_named
from rankmixup.reports.export import Bold, Cell, DataTable
from rankmixup.reports.tables import shown, titled


def best_table(models: Mapping[str, Mapping[str, tuple[float, float | None] | None]], caption: str) -> DataTable:
    """Models by metrics: each value, its deviation over seeds if there is one, and the best of each metric in bold.

    Values and deviations are by model and metric; many metrics go down the page.
    """
    keys = list(dict.fromkeys(key for found in models.values() for key, each in found.items() if each))
    rows: list[list[Cell]] = [[name] for name in models]
    for key in keys:
        best = shown(key, min((each[0] for found in models.values() if (each := found.get(key))), key=metric_named(key).loss))
        for row, found in zip(rows, models.values(), strict=True):
            value, deviation = found.get(key) or (None, None)
            text = shown(key, value) + ("" if deviation is None else f" ± {shown(key, deviation)}")
            row.append(Bold(text) if value is not None and shown(key, value) == best and len(models) > 1 else text)
    if len(keys) <= max(8, len(models)):
        return DataTable(["model", *map(titled, keys)], rows, caption)
    _, *columns = zip(*rows, strict=True)
    return DataTable(["metric", *models], [[titled(key), *column] for key, column in zip(keys, columns, strict=True)], caption)
