"""Every cell of the paper's tables and figures beside ours, and every claim with what our runs say about it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from rankmixup.evaluation.significance import Direction
from rankmixup.experiments.grid import Cell
from rankmixup.paper.evidence import Evidence, Finding, weigh_claims
from rankmixup.paper.experiment import Experiment, Scale
from rankmixup.paper.measure import OBJECTIVES, Measurements
from rankmixup.paper.published import PUBLISHED_TABLES, Published, published, read_toml
from rankmixup.paper.verdict import SeedEstimate, Verdict, judge, over_runs

_DEVIATIONS = read_toml("deviations")
_MIXING_ROWS = ("ce", "mixup", "regmixup", "rankmixup-mrl", "rankmixup-mndcg")


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
    ours: SeedEstimate | None
    after: dict[str, SeedEstimate]
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
        return {"schema": 1, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Scorecard":
        """What `to_dict` made."""
        fields = {key: value for key, value in data.items() if key != "schema"}
        fields["scores"], fields["claims"] = tuple(map(_score_from_dict, data["scores"])), tuple(map(_claim_from_dict, data["claims"]))
        return cls(**{**fields, "machines": tuple(data["machines"])})

    def of(self, experiment: str) -> tuple[Score, ...]:
        """The scores of one experiment."""
        return tuple(score for score in self.scores if score.experiment == experiment)


def scorecard(experiments: Sequence[Experiment], scale: Scale, runs: Path, seeds: int | None = None, *, replicates: int = 400) -> Scorecard:
    """Score whatever of these experiments is finished below `runs`, from stored logits alone.

    `replicates` are those behind each interval over samples.
    """
    cells = {experiment.key: experiment.cells(scale, seeds) for experiment in experiments}
    measurements = Measurements(runs, replicates)
    scores = tuple(score for experiment in experiments for score in _scores(experiment, cells[experiment.key], scale, measurements))
    every = {run.id: run for filled in cells.values() for cell in filled.values() for run in cell.runs}
    claims, curves = weigh_claims(experiments, cells, measurements), _confidence_by_lambda(experiments, cells, measurements)
    costs = [cost for run in every.values() if (cost := measurements.cost(run)) is not None]
    return Scorecard(
        scale.key,
        {experiment.key: experiment.title for experiment in experiments},
        scores,
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
    filled = cells.get("table1", {})
    labels = {row.key: row.label for experiment in experiments if experiment.key == "table1" for row in experiment.rows}
    first = [(row, cell) for (row, column), cell in filled.items() if column == next(iter(filled))[1] and row in _MIXING_ROWS]
    return {labels[row]: curve for row, cell in first if (curve := measurements.curve(cell))}


def _scores(experiment: Experiment, cells: Mapping[tuple[str, str], Cell], scale: Scale, measurements: Measurements) -> Iterator[Score]:
    for column, row, metric in product(experiment.columns, experiment.rows, experiment.metrics):
        table, printed_row = experiment.printed_in(row.key, column.key)
        paper, cell = _printed(table).get((printed_row, column.key, metric)), cells.get((row.key, column.key), Cell(()))
        value, after_ts = _printed_values(paper)
        ours = over_runs(measurements.estimates(cell, metric))
        after: dict[str, SeedEstimate] = {}
        for objective in OBJECTIVES if metric != "accuracy" else ():
            if scaled := over_runs(measurements.estimates(cell, metric, objective)):
                after[objective] = scaled
        note = "" if paper is None else paper.note
        yield Score(
            *(experiment.key, row.key, row.label, column.key, column.label, metric),
            paper=None if value is None else float(value) / 100,
            paper_after=None if after_ts is None else float(after_ts) / 100,
            seeds_wanted=len(cell.runs),
            stands_for_column=f"{cell.runs[0].data.name} {cell.runs[0].model}" if cell.runs else "",
            ours=ours,
            after=after,
            verdict=_verdict(value, ours, metric, scale),
            # A number that must be a misprint is nothing to agree with.
            verdict_after=_verdict(after_ts, after.get("ece-grid"), metric, scale, misprint=note.startswith("misprint")),
            notes=((note,) if note else ()) + _known_deviations(row.key, column.key),
        )


def _known_deviations(row: str, column: str) -> tuple[str, ...]:
    """Where our recipe of a cell is known to differ from what the paper did, or the paper does not say what it did.

    >>> _known_deviations("crl", "cifar10/resnet50")
    ("CRL is trained by the common recipe, not by its authors' own",)
    """
    data, _, *unknown = column.split("/")
    of_data = _DEVIATIONS["long_tail"] if "-lt-" in data else _DEVIATIONS["data"].get(data)
    found = (_DEVIATIONS["methods"].get(row.partition("/")[0]), of_data, _DEVIATIONS["unknown"] if unknown else None)
    return tuple(each for each in found if each)


@cache
def _printed(table: str) -> dict[tuple[str, str, str], Published]:
    cells = published(table) if table in PUBLISHED_TABLES else []
    return {(cell.row, cell.column, cell.metric): cell for cell in cells}


def _printed_values(paper: Published | None) -> tuple[Decimal | None, Decimal | None]:
    """Before and after temperature scaling; table 4 prints cross-entropy only after it."""
    if paper is None:
        return None, None
    return (None, paper.value) if paper.note.startswith("printed as TS") else (paper.value, paper.after_ts)


def _verdict(printed: Decimal | None, ours: SeedEstimate | None, metric: str, scale: Scale, *, misprint: bool = False) -> Verdict:
    if ours is None:
        return "not run"
    if scale.key != "paper":
        return "other scale"
    if misprint:
        return "cannot tell"
    return "not published" if printed is None else judge(printed, ours.seeds, metric)


def _score_from_dict(data: Mapping[str, Any]) -> Score:
    after = {objective: _estimate_from_dict(each) for objective, each in data["after"].items()}
    return Score(**{**data, "ours": data["ours"] and _estimate_from_dict(data["ours"]), "after": after, "notes": tuple(data["notes"])})


def _estimate_from_dict(data: Mapping[str, Any]) -> SeedEstimate:
    return SeedEstimate(**{**data, "seeds": tuple(data["seeds"])})


def _claim_from_dict(data: Mapping[str, Any]) -> Evidence:
    findings = tuple(Finding(each["part"], each["direction"] and Direction(**each["direction"])) for each in data["findings"])
    return Evidence(**{**data, "findings": findings})
