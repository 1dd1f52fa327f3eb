"""What runs say about the paper's claims.

A claim is made of parts, each a pair of rows or a trend, and holds if all of them do: its p-value is the largest of theirs (an
intersection-union test, which needs no correction). It does not hold if one of them goes the other way: that p-value is the smallest
of theirs times their number. Over all claims that were tested, Holm's correction is applied to either kind. Numbers are compared
within a seed; seeds and columns are repetitions, but columns that share their runs are averaged first.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from rankmixup.evaluation import holm
from rankmixup.evaluation.significance import Direction, ordered_direction, paired_direction
from rankmixup.experiments.grid import Cell
from rankmixup.paper.claims import AFTER_TS, CLAIMS, Pair, Trend
from rankmixup.paper.experiment import Experiment
from rankmixup.paper.measure import Measurements

Outcome = Literal["holds", "does not hold", "cannot tell", "not run"]
Cells = Mapping[str, Mapping[tuple[str, str], Cell]]
"""By key of experiment, then of row and column."""
_LEVEL = 0.05


@dataclass(frozen=True)
class Finding:
    """What came of one part of a claim."""

    part: str
    direction: Direction | None
    """None where runs are missing."""


@dataclass(frozen=True)
class Evidence:
    """What was found about a claim."""

    number: int
    sentence: str
    published: str
    """How its comparisons come out on the paper's own cells."""
    findings: tuple[Finding, ...]
    p_value: float | None
    """That chance bears the whole claim out as well as the runs do; None where a part was not run."""
    p_holm: float | None
    p_against: float | None
    """That chance goes against some part of it as much as the runs do."""
    p_against_holm: float | None
    outcome: Outcome


def weigh_claims(experiments: Sequence[Experiment], cells: Cells, measurements: Measurements) -> tuple[Evidence, ...]:
    """Test the claims that these experiments are about."""
    asked = {experiment.key for experiment in experiments}
    claims = [claim for claim in CLAIMS if any(asked.intersection(part.experiments) for part in claim.tests)]
    findings = [tuple(Finding(str(part), _test(part, cells, measurements)) for part in claim.tests) for claim in claims]
    found = [[each.direction for each in parts if each.direction is not None] for parts in findings]
    p_for = [max(each.p_for for each in some) if len(some) == len(parts) else None for some, parts in zip(found, findings, strict=True)]
    p_against = [min(1.0, len(some) * min(each.p_against for each in some)) if some else None for some in found]
    p_values = zip(p_for, _holm(p_for), p_against, _holm(p_against), strict=True)
    return tuple(
        Evidence(claim.number, claim.sentence, str(claim.count_published()), parts, *p, _outcome(some, p[1], p[3]))
        for claim, parts, some, p in zip(claims, findings, found, p_values, strict=True)
    )


def _outcome(found: Sequence[Direction], p_holm: float | None, p_against_holm: float | None) -> Outcome:
    if not found:
        return "not run"
    if p_holm is not None and max(p_holm, *(each.exact_for for each in found)) < _LEVEL:
        return "holds"
    if p_against_holm is not None and max(p_against_holm, min(each.exact_against for each in found)) < _LEVEL:
        return "does not hold"
    return "cannot tell"


def _holm(p_values: Sequence[float | None]) -> list[float | None]:
    adjusted = iter(holm([p_value for p_value in p_values if p_value is not None]))
    return [None if p_value is None else next(adjusted) for p_value in p_values]


def _test(part: Pair | Trend, cells: Cells, measurements: Measurements) -> Direction | None:
    columns = dict.fromkeys((experiment, column) for experiment in part.experiments for _, column in cells.get(experiment, {}))

    def by_seed(experiment: str, column: str, rows: Sequence[str]) -> dict[int, list[float]]:
        """The numbers of all rows, by each seed that has them all; those of the row "" are 0."""
        found = {row: _values(cells[experiment], row, column, part.metric, measurements) for row in rows if row}
        seeds = sorted(set.intersection(*map(set, found.values())))
        return {seed: [found[row][seed] if row else 0.0 for row in rows] for seed in seeds}

    if isinstance(part, Pair):
        differences: dict[tuple[str, int], list[float]] = defaultdict(list)
        for experiment, column in columns:
            network = "/".join(column.split("/")[:2])  # columns that differ only in their unknown samples have the same runs
            if column.startswith(part.data):
                for seed, (smaller, larger) in by_seed(experiment, column, (part.smaller, part.larger)).items():
                    differences[network, seed].append(larger - smaller)
        means = [sum(each) / len(each) for _, each in sorted(differences.items())]
        return paired_direction(means) if means else None
    blocks = []
    for (experiment, column), line in product(columns, part.lines):
        for values in by_seed(experiment, column, (*line, *part.less)).values():
            less = values[len(line) :] or [0.0] * len(line)
            blocks.append([value - subtracted for value, subtracted in zip(values[: len(line)], less, strict=True)])
    return ordered_direction(blocks, part.order) if blocks else None


def _values(cells: Mapping[tuple[str, str], Cell], row: str, column: str, metric: str, measurements: Measurements) -> dict[int, float]:
    key = row.removesuffix(AFTER_TS)
    cell = cells.get((key, column))
    return {} if cell is None else measurements.values(cell, metric, "plain" if key == row else "ece-grid")
