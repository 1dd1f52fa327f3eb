"""The numbers that the paper prints in its tables 1 to 8, in percent, with their marks. Of its figures it prints none."""

import csv
import tomllib
from dataclasses import dataclass
from decimal import Decimal
from importlib.resources import files
from typing import Any, Literal

from rankmixup.errors import unknown_name

PUBLISHED_TABLES = tuple(f"table{number}" for number in range(1, 9))

Mark = Literal["bold", "underline"]
"""The paper's signs for the best and the second best of a column."""


@dataclass(frozen=True)
class Published:
    """One cell of a table; decimals, because the digits as printed are the data."""

    row: str
    """Registry key of the method, followed by /SETTING where the table varies one: `regmixup/cutmix`, `rankmixup-mrl/margin=2`."""
    column: str
    """DATA/NETWORK, with a long tail as DATA-lt-RATIO, or DATA/NETWORK/UNKNOWN where unknown samples are detected."""
    metric: str
    value: Decimal
    after_ts: Decimal | None
    """The number in parentheses: after temperature scaling."""
    mark: Mark | None
    after_ts_mark: Mark | None
    note: str
    """What is odd about the cell; begins with `misprint` where the number must be wrong."""


def published(table: str) -> list[Published]:
    """The cells of a table in the order in which the paper prints them.

    >>> cell = published("table5")[0]
    >>> cell.row, cell.column, cell.metric, str(cell.value), str(cell.after_ts)
    ('rankmixup-mrl/margin=1', 'cifar10/resnet50', 'ece', '1.54', '1.09')
    """
    if table not in PUBLISHED_TABLES:
        raise unknown_name("published table", table, PUBLISHED_TABLES)
    return [_published(record) for record in csv.DictReader(_text(f"published/{table}.csv").splitlines())]


def _published(record: dict[str, Any]) -> Published:
    empty = {key: None for key in ("after_ts", "mark", "after_ts_mark") if not record[key]}
    numbers = {key: Decimal(record[key]) for key in ("value", "after_ts") if record[key]}
    return Published(**{**record, **numbers, **empty})


def read_toml(name: str) -> dict[str, Any]:
    """One of this package's files of data, with tuples for lists."""
    return _frozen(tomllib.loads(_text(f"{name}.toml")))


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _frozen(each) for key, each in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _text(path: str) -> str:
    return files("rankmixup.paper").joinpath(path).read_text(encoding="utf-8")
