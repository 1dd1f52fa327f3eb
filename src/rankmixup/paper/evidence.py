"""What runs say about the paper's claims.

A claim is made of parts, each a pair of rows or a trend, and holds if all of them do: its p-value is the largest of theirs (an
intersection-union test, which needs no correction). It does not hold if one of them goes the other way: that p-value is the smallest
of theirs times their number. Over all claims that were tested, Holm's correction is applied to either kind. Numbers are compared
within a seed; seeds and columns are repetitions, but columns that share their runs are averaged first.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rankmixup.evaluation import holm
from rankmixup.evaluation.significance import Direction, ordered_direction, paired_direction
from rankmixup.experiments.grid import Cell
from rankmixup.paper.claims import AFTER_TS, CLAIMS, Claim, Pair, Trend
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
    p_for, p_against = ([p_value(each) for each in findings] for p_value in (_p_for, _p_against))
    rows = zip(claims, findings, zip(p_for, _holm(p_for), strict=True), zip(p_against, _holm(p_against), strict=True), strict=True)
    return tuple(_evidence(*row) for row in rows)


_PValues = tuple[float | None, float | None]
"""As it is, and corrected by Holm."""


def _evidence(claim: Claim, findings: tuple[Finding, ...], p_for: _PValues, p_against: _PValues) -> Evidence:
    found = [each.direction for each in findings if each.direction is not None]
    outcome: Outcome = "cannot tell"
    if not found:
        outcome = "not run"
    elif _small(p_for[1]) and _small(max(each.exact_for for each in found)):
        outcome = "holds"
    elif _small(p_against[1]) and _small(min(each.exact_against for each in found)):
        outcome = "does not hold"
    return Evidence(claim.number, claim.sentence, str(claim.count_published()), findings, *p_for, *p_against, outcome)


def _small(p_value: float | None) -> bool:
    return p_value is not None and p_value < _LEVEL


def _p_for(findings: Sequence[Finding]) -> float | None:
    found = [each.direction.p_for for each in findings if each.direction is not None]
    return max(found) if len(found) == len(findings) else None


def _p_against(findings: Sequence[Finding]) -> float | None:
    found = [each.direction.p_against for each in findings if each.direction is not None]
    return min(1.0, len(found) * min(found)) if found else None


def _holm(p_values: Sequence[float | None]) -> list[float | None]:
    adjusted = iter(holm([p_value for p_value in p_values if p_value is not None]))
    return [None if p_value is None else next(adjusted) for p_value in p_values]


def _test(part: Pair | Trend, cells: Cells, measurements: Measurements) -> Direction | None:
    if isinstance(part, Pair):
        differences = _differences(part, cells, measurements)
        return paired_direction(differences) if differences else None
    blocks = _blocks(part, cells, measurements)
    return ordered_direction(blocks, part.order) if blocks else None


def _differences(pair: Pair, cells: Cells, measurements: Measurements) -> list[float]:
    """Larger minus smaller, one for each seed and network."""
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    for experiment, column in _columns(pair, cells):
        if not column.startswith(pair.data):
            continue
        larger = _by_seed(cells[experiment], pair.larger, column, pair.metric, measurements)
        smaller = (
            _by_seed(cells[experiment], pair.smaller, column, pair.metric, measurements) if pair.smaller else dict.fromkeys(larger, 0.0)
        )
        network = "/".join(column.split("/")[:2])  # unknown samples are shown to one and the same
        for seed in larger.keys() & smaller.keys():
            found[network, seed].append(larger[seed] - smaller[seed])
    return [sum(each) / len(each) for _, each in sorted(found.items())]


def _blocks(trend: Trend, cells: Cells, measurements: Measurements) -> list[list[float]]:
    """The settings in order, once for each line, column and seed that has them all."""
    blocks = []
    for experiment, column in _columns(trend, cells):
        less = [_by_seed(cells[experiment], row, column, trend.metric, measurements) for row in trend.less]
        for line in trend.lines:
            values = [_by_seed(cells[experiment], row, column, trend.metric, measurements) for row in line]
            for seed in sorted(set.intersection(*(set(each) for each in (*values, *less)))):
                taken_off = [each[seed] for each in less] or [0.0] * len(values)
                blocks.append([each[seed] - off for each, off in zip(values, taken_off, strict=True)])
    return blocks


def _columns(part: Pair | Trend, cells: Cells) -> Iterable[tuple[str, str]]:
    """Filled columns of the part's experiments."""
    for experiment in part.experiments:
        yield from dict.fromkeys((experiment, column) for _, column in cells.get(experiment, {}))


def _by_seed(cells: Mapping[tuple[str, str], Cell], row: str, column: str, metric: str, measurements: Measurements) -> dict[int, float]:
    key = row.removesuffix(AFTER_TS)
    if (key, column) not in cells:
        return {}
    return measurements.values(cells[key, column], metric, "plain" if key == row else "ece-grid")
