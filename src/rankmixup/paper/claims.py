"""The paper's claims of direction: how each is tested on runs, and how it counts on the cells that the paper itself prints.

A claim about figures alone has nothing to count: the paper prints none of their values. Calibration is compared by ECE, which every
table of calibration prints, and before temperature scaling unless the claim is about that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from typing import Any

from rankmixup.paper.published import PUBLISHED_TABLES, published, read_toml

AFTER_TS = "/temperature"
"""Behind the key of a row: its number after temperature scaling."""


@dataclass(frozen=True)
class PrintedPair:
    """Two printed numbers of one column, of which a claim says that the first is smaller."""

    table: str
    column: str
    metric: str
    smaller: str
    """Row that the claim says has the smaller number."""
    smaller_value: Decimal
    larger: str
    larger_value: Decimal

    @property
    def holds(self) -> bool:
        """Whether the numbers agree with the claim; equal ones do not."""
        return self.smaller_value < self.larger_value

    def __str__(self) -> str:
        numbers = f"{self.smaller} {self.smaller_value} {'<' if self.holds else '>='} {self.larger} {self.larger_value}"
        return f"{self.table}, {self.column}, {self.metric}: {numbers}"


@dataclass(frozen=True)
class Count:
    """How many printed pairs agree with a claim."""

    holding: tuple[PrintedPair, ...]
    failing: tuple[PrintedPair, ...]

    def __str__(self) -> str:
        total = len(self.holding) + len(self.failing)
        return f"{len(self.holding)} of {total} hold" if total else "not published"


@dataclass(frozen=True)
class Pair:
    """Two rows, of which a claim says that the first has the smaller number in every column."""

    experiments: tuple[str, ...]
    smaller: str
    """Empty stands for 0."""
    larger: str
    metric: str = "ece"
    data: tuple[str, ...] = ("",)

    def __str__(self) -> str:
        return f"{self.metric}: {self.smaller or '0'} < {self.larger}"


@dataclass(frozen=True)
class Trend:
    """Settings along which a claim says that a number rises."""

    experiments: tuple[str, ...]
    name: str
    lines: tuple[tuple[str, ...], ...]
    """Rows of each line of settings."""
    order: tuple[int, ...]
    """Place of each setting in the claimed order, the one with the lowest number first; those of one place are not compared."""
    metric: str = "ece"
    less: tuple[str, ...] = ()
    """Rows whose numbers are taken off those of a line."""

    def __str__(self) -> str:
        return f"{self.metric}: {self.name}"


@dataclass(frozen=True)
class Claim:
    """What the paper says, where, and which rows it compares."""

    number: int
    sentence: str
    sources: tuple[str, ...]
    """Tables, figures and passages that it is read from."""
    tests: tuple[Pair | Trend, ...]
    """What runs must show if it is true, all of it."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Rows of its tables, the one with the smaller number first."""
    metric: str = "ece"
    data: tuple[str, ...] = ("",)
    """Beginnings of the columns that it is about."""

    def printed_pairs(self) -> Iterator[PrintedPair]:
        """Its pairs in every column of its tables; nothing where the paper prints no numbers."""
        for table in (source for source in self.sources if source in PUBLISHED_TABLES):
            cells = [cell for cell in published(table) if cell.metric == self.metric]
            values = {(cell.row, cell.column): cell.value for cell in cells}
            values |= {(cell.row + AFTER_TS, cell.column): cell.after_ts for cell in cells if cell.after_ts is not None}
            for column in dict.fromkeys(column for _, column in values if column.startswith(self.data)):
                for smaller, larger in self.pairs:
                    yield PrintedPair(table, column, self.metric, smaller, values[smaller, column], larger, values[larger, column])

    def count_published(self) -> Count:
        """How many pairs of printed numbers agree with it.

        >>> count = CLAIMS[1].count_published()
        >>> print(count, *count.failing, sep="; ")  # doctest: +ELLIPSIS
        33 of 36 hold; ...; table3, tiny-imagenet/wrn-26-10, ece: rankmixup-mndcg 3.83 >= mixup 3.77
        """
        found = tuple(self.printed_pairs())
        return Count(tuple(each for each in found if each.holds), tuple(each for each in found if not each.holds))


def _claim(number: int, entry: dict[str, Any]) -> Claim:
    pairs = _pairs(entry.get("pairs", ()))
    where = {key: entry[key] for key in ("metric", "data") if key in entry}
    tests = tuple(part for test in entry.get("tests", ()) for part in _parts(**test))
    tests = tests or tuple(Pair(entry["sources"], *pair, **where) for pair in pairs)
    return Claim(number, entry["sentence"], entry["sources"], tests, pairs, **where)


def _parts(*, pairs: Any = None, **test: Any) -> list[Pair | Trend]:
    return [Trend(**test)] if pairs is None else [Pair(smaller=smaller, larger=larger, **test) for smaller, larger in _pairs(pairs)]


def _pairs(groups: Any) -> tuple[tuple[str, str], ...]:
    return tuple(pair for smaller, larger in groups for pair in product(smaller, larger))


CLAIMS = tuple(_claim(number, entry) for number, entry in enumerate(read_toml("claims")["claim"], 1))
"""In the order of their numbers, from claims.toml."""
