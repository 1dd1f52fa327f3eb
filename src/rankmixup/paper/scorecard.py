"""Every cell of the paper's tables and figures beside ours, and every claim with what our runs say about it.

The interval of a cell is over seeds and samples. Seeds are tested on the same samples, so that the spread between them does not show what
other samples would have changed: the margin of the mean over seeds (Student's t) and the mean margin over samples of a single seed are
therefore added in quadrature, either side by itself. One seed has the margin over samples alone.

A published number is compared with what one further seed would show on the same samples: it *differs* where it lies outside of the 95 %
prediction interval of our seeds, and *agrees* inside, unless that interval is so wide (its margin above half of the published error) that
agreement would mean nothing, or there are fewer than three seeds: then one *cannot tell*. Only scale `paper` is compared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

from rankmixup.evaluation import over_seeds
from rankmixup.evaluation.registry import metric_named
from rankmixup.evaluation.trend import Direction
from rankmixup.experiments.grid import Cell
from rankmixup.paper.deviations import known_deviations
from rankmixup.paper.evidence import Evidence, Finding, weigh_claims
from rankmixup.paper.experiment import Experiment, Scale
from rankmixup.paper.measure import OBJECTIVES, Measured, Measurements, Stage
from rankmixup.paper.published import PUBLISHED_TABLES, Published, published

__all__ = ["Estimate", "Score", "Scorecard", "Verdict", "judge", "over_runs", "scorecard"]

Verdict = Literal["agrees", "differs", "cannot tell", "other scale", "not published", "not run"]
_MIXING_ROWS = ("ce", "mixup", "regmixup", "rankmixup-mrl", "rankmixup-mndcg")


@dataclass(frozen=True)
class Estimate:
    """A metric over seeds."""

    value: float
    low: float | None
    high: float | None
    floor: float | None
    """Mean over seeds of what calibrated models show."""
    seeds: tuple[float, ...]


@dataclass(frozen=True)
class Score:
    """One metric of one cell."""

    experiment: str
    row: str
    row_label: str
    column: str
    column_label: str
    metric: str
    paper: float | None
    """As printed, but a fraction; None where the paper prints nothing."""
    paper_after: float | None
    """The number in parentheses."""
    seeds_wanted: int
    """0 for a column that the scale leaves empty."""
    stands_for_column: str
    """Data set and network of our runs."""
    ours: Estimate | None
    after: dict[str, Estimate]
    """After the temperature of each objective; nothing for accuracy, which it does not change."""
    verdict: Verdict
    verdict_after: Verdict
    notes: tuple[str, ...]
    """What is odd about the published number, and where our recipe is known to deviate."""


@dataclass(frozen=True)
class Scorecard:
    """What came of experiments at one scale. Fractions, as everywhere but in tables for people."""

    scale: str
    titles: dict[str, str]
    """Of the experiments."""
    scores: tuple[Score, ...]
    claims: tuple[Evidence, ...]
    runs_wanted: int
    runs_done: int
    seconds: float
    """What the finished runs took to train, summed."""
    machines: tuple[str, ...]
    """What they were trained on."""
    confidence_by_lambda: dict[str, list[float | None]]
    """Of some rows of table 1, mean confidence in ten equal bins of lambda from 0.5 to 1 and last of raw samples: what figure 1 draws."""
    damaged: dict[str, str] = field(default_factory=dict)
    """By id, what is wrong with runs that could not be read."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"schema": 1, **asdict(self), "claims": [_claim_to_dict(each) for each in self.claims]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Scorecard":
        """What `to_dict` made."""
        fields = {key: value for key, value in data.items() if key != "schema"}
        scores, claims = (tuple(read(each) for each in data[key]) for key, read in (("scores", _score), ("claims", _claim)))
        return cls(**{**fields, "scores": scores, "claims": claims, "machines": tuple(data["machines"])})

    def of(self, experiment: str) -> tuple[Score, ...]:
        """The scores of one experiment."""
        return tuple(score for score in self.scores if score.experiment == experiment)


def scorecard(experiments: Sequence[Experiment], scale: Scale, runs: Path, seeds: int | None = None, *, replicates: int = 400) -> Scorecard:
    """Score whatever of these experiments is finished below `runs`, from stored logits alone.

    `replicates` are those behind each interval over samples.
    """
    cells = {experiment.key: experiment.cells(scale, seeds) for experiment in experiments}
    measurements = Measurements(runs, replicates)
    scores = [score for experiment in experiments for score in _scores(experiment, cells[experiment.key], scale, measurements)]
    every = {run.id: run for filled in cells.values() for cell in filled.values() for run in cell.runs}
    claims, curves = weigh_claims(experiments, cells, measurements), _confidence_by_lambda(experiments, cells, measurements)
    costs = [cost for run in every.values() if (cost := measurements.cost(run)) is not None]
    return Scorecard(
        scale.key,
        {experiment.key: experiment.title for experiment in experiments},
        tuple(scores),
        claims,
        len(every),
        len(costs),
        sum(seconds for seconds, _ in costs),
        tuple(sorted({machine for _, machine in costs})),
        curves,
        measurements.damaged,
    )


def _confidence_by_lambda(
    experiments: Sequence[Experiment], cells: Mapping[str, Mapping[tuple[str, str], Cell]], measurements: Measurements
) -> dict[str, list[float | None]]:
    """In the first filled column."""
    curves = {}
    for table in (experiment for experiment in experiments if experiment.key == "table1"):
        filled = cells[table.key]
        for column in list(dict.fromkeys(column for _, column in filled))[:1]:
            found = {row.label: measurements.curve(filled[row.key, column]) for row in table.rows if row.key in _MIXING_ROWS}
            curves = {label: curve for label, curve in found.items() if curve}
    return curves


def _scores(experiment: Experiment, cells: Mapping[tuple[str, str], Cell], scale: Scale, measurements: Measurements) -> list[Score]:
    found = []
    for column in experiment.columns:
        for row in experiment.rows:
            table, printed_row = experiment.printed_in(row.key, column.key)
            cell, printed = cells.get((row.key, column.key)), _printed(table)
            for metric in experiment.metrics:
                paper = printed.get((printed_row, column.key, metric))
                found.append(_score_of(experiment, row.key, column.key, metric, cell, paper, scale, measurements))
    return found


def _score_of(
    experiment: Experiment,
    row: str,
    column: str,
    metric: str,
    cell: Cell | None,
    paper: Published | None,
    scale: Scale,
    measurements: Measurements,
) -> Score:
    value, after_ts = _printed_values(paper)
    estimates: dict[Stage, Estimate] = {}
    if cell is not None:
        for stage in ("plain", *(OBJECTIVES if metric != "accuracy" else ())):
            if measured := measurements.measured(cell, metric, stage):
                estimates[stage] = over_runs(measured)
    ours, scaled = estimates.pop("plain", None), estimates.get("ece-grid")
    misprint = paper is not None and paper.note.startswith("misprint")
    return Score(
        experiment=experiment.key,
        row=row,
        row_label=experiment.row(row).label,
        column=column,
        column_label=experiment.column(column).label,
        metric=metric,
        paper=None if value is None else float(value) / 100,
        paper_after=None if after_ts is None else float(after_ts) / 100,
        seeds_wanted=0 if cell is None else len(cell.runs),
        stands_for_column="" if cell is None else f"{cell.runs[0].data.name} {cell.runs[0].model}",
        ours=ours,
        after={str(stage): estimate for stage, estimate in estimates.items()},
        verdict=_verdict(value, ours, metric, scale),
        # A number that must be a misprint is nothing to agree with.
        verdict_after="cannot tell" if misprint and scaled and scale.key == "paper" else _verdict(after_ts, scaled, metric, scale),
        notes=((paper.note,) if paper is not None and paper.note else ()) + known_deviations(row, column),
    )


def _printed(table: str) -> dict[tuple[str, str, str], Published]:
    cells = published(table) if table in PUBLISHED_TABLES else []
    return {(cell.row, cell.column, cell.metric): cell for cell in cells}


def _printed_values(paper: Published | None) -> tuple[Decimal | None, Decimal | None]:
    """Before and after temperature scaling; table 4 prints cross-entropy only after it."""
    if paper is None:
        return None, None
    return (None, paper.value) if paper.note.startswith("printed as TS") else (paper.value, paper.after_ts)


def over_runs(measured: Sequence[Measured]) -> Estimate:
    """Mean over seeds with an interval over seeds and samples; none where neither is known.

    >>> over_runs([Measured(0.10, 0.07, 0.14, 0.01)])
    Estimate(value=0.1, low=0.07, high=0.14, floor=0.01, seeds=(0.1,))
    """
    values = [each.value for each in measured]
    over = over_seeds(values)
    mean, low, high = over.value, over.low, over.high
    between = 0.0 if low is None or high is None else (high - low) / 2
    below = [each.value - each.low for each in measured if each.low is not None]
    above = [each.high - each.value for each in measured if each.high is not None]
    floors = [each.floor for each in measured if each.floor is not None]
    if len(measured) == 1:
        low, high = measured[0].low, measured[0].high
    else:
        low = max(mean - sqrt(between**2 + fmean(below or [0.0]) ** 2), 0.0)
        high = min(mean + sqrt(between**2 + fmean(above or [0.0]) ** 2), 1.0)
    return Estimate(mean, low, high, fmean(floors) if floors else None, tuple(values))


def _verdict(printed: Decimal | None, ours: Estimate | None, metric: str, scale: Scale) -> Verdict:
    if ours is None:
        return "not run"
    if scale.key != "paper":
        return "other scale"
    return "not published" if printed is None else judge(printed, ours.seeds, metric)


def judge(printed: Decimal, seeds: Sequence[float], metric: str = "ece") -> Verdict:
    """Whether a printed percentage is what one further seed might show.

    >>> judge(Decimal("1.01"), [0.0100, 0.0102, 0.0101]), judge(Decimal("3.75"), [0.0100, 0.0102, 0.0101])
    ('agrees', 'differs')
    >>> judge(Decimal("1.01"), [0.002, 0.010, 0.020]), judge(Decimal("1.01"), [0.0101])
    ('cannot tell', 'cannot tell')
    """
    from scipy.stats import t

    if len(seeds) < 3:
        return "cannot tell"
    percent = [100 * value for value in seeds]
    rounding = 0.5 * 10.0 ** float(printed.as_tuple().exponent)
    reach = float(t.ppf(0.975, len(seeds) - 1)) * stdev(percent) * sqrt(1 + 1 / len(seeds)) + rounding
    if abs(fmean(percent) - float(printed)) > reach:
        return "differs"
    error = 100 - float(printed) if metric_named(metric).higher_is_better else float(printed)
    return "agrees" if reach <= error / 2 else "cannot tell"


def _claim_to_dict(evidence: Evidence) -> dict[str, Any]:
    parts = [{"part": each.part, "direction": each.direction and each.direction._asdict()} for each in evidence.findings]
    return {**asdict(evidence), "findings": parts}


def _score(data: Mapping[str, Any]) -> Score:
    after = {objective: _estimate(each) for objective, each in data["after"].items()}
    return Score(**{**data, "ours": data["ours"] and _estimate(data["ours"]), "after": after, "notes": tuple(data["notes"])})


def _estimate(data: Mapping[str, Any]) -> Estimate:
    return Estimate(**{**data, "seeds": tuple(data["seeds"])})


def _claim(data: Mapping[str, Any]) -> Evidence:
    findings = tuple(Finding(each["part"], each["direction"] and Direction(**each["direction"])) for each in data["findings"])
    return Evidence(**{**data, "findings": findings})
