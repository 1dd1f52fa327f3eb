"""The tournament: every method at its defaults, and those with a dial tuned by feedback, on small data sets, against cross-entropy. Ours.

What it asks was fixed before any of its runs: a method *calibrates by training alone* in a column if the 95 % intervals of paired
differences over seeds put its ECE before temperature scaling at most one point above that of cross-entropy after it, and its accuracy at
most one point below that of cross-entropy. The columns were chosen by runs of cross-entropy alone, see tournament.toml.
"""

import dataclasses
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

from rankmixup.data import DataSource
from rankmixup.errors import unknown_name
from rankmixup.evaluation import Estimate, over_seeds
from rankmixup.experiments.grid import Cell, Grid
from rankmixup.methods.dials import confidence_gap
from rankmixup.mixers import Mixer
from rankmixup.runs import Run, StoredRun, recipe_for, with_field

BASELINE = "ce"
LIMIT = 0.01
"""By how much ECE may be higher, and accuracy lower."""
PLAIN = ("accuracy", "ece", "nll", "aurc")
AFTER = ("ece", "nll")
"""Metrics that are shown after temperature scaling too."""
Answer = Literal["yes", "no", "open"]
Cells = Mapping[tuple[str, str], Cell]
"""By row and column."""
_TABLES: dict[str, Any] = tomllib.loads((Path(__file__).parent / "tournament.toml").read_text(encoding="utf-8"))
ROWS: dict[str, str] = _TABLES["rows"]
"""Label of each row by key: a method, followed by /FIELD=VALUE for each field that it changes."""
ABLATION: dict[str, str] = _TABLES["ablation"]
"""Likewise, for `rankmixup-auto` with one thing changed at a time."""
SWEEPS: dict[str, str] = _TABLES["sweeps"]
"""Likewise, for the paper's two losses."""
SWEEP_COLUMNS: list[str] = _TABLES["sweep_columns"]
CHANGED = {"ablation": ["rankmixup-auto", *ABLATION], "sweeps": ["rankmixup-mrl", "rankmixup-mndcg", *SWEEPS]}
"""Rows of what is reproduced beside the tournament, by name."""
LABELS = ROWS | ABLATION | SWEEPS


@dataclass(frozen=True)
class Column:
    """A data set, how it is trained, and which rows take part."""

    key: str
    label: str
    data: DataSource
    optimisation: Mapping[str, Any]
    """What it changes of the recipe of its data set."""
    rows: tuple[str, ...]
    chosen: str
    """What cross-entropy alone showed when it was chosen."""
    on_disk: str
    """The folder below the data root that it needs; nothing where the data is embedded."""

    def run(self, row: str, seed: int) -> Run:
        """The run of a row."""
        name, *settings = row.split("/")
        recipe = recipe_for(self.data)
        method = recipe.build_method(name)
        for setting in settings:
            path, _, text = setting.partition("=")
            method = with_field(method, path, _value(attrgetter(path)(method), text))
        optimisation = dataclasses.replace(recipe.build_optimisation(), **self.optimisation)
        return Run(method, self.data, "resnet8", optimisation, seed, selection="last")


def _value(present: Any, text: str) -> Any:
    """What replaces the present value of a field: the mixer of a name with the same alpha, a number, or the text itself."""
    if isinstance(present, Mixer):
        return Mixer.registry[text](alpha=present.alpha)
    number = int if isinstance(present, int) else float
    return number(text) if re.fullmatch(r"-?[\d.]+", text) else text


def _column(key: str, *, label: str, data: dict[str, Any], chosen: str, optimisation: dict[str, Any], **more: Any) -> Column:
    changes = {name: tuple(value) if isinstance(value, list) else value for name, value in optimisation.items()}
    left_out, also = more.get("without", ()), more.get("also", ())
    rows = tuple(more.get("only", [row for row in ROWS if row not in left_out and (row not in _TABLES["long_tailed"] or row in also)]))
    return Column(key, label, DataSource.from_dict(data), changes, rows, chosen, more.get("on_disk", ""))


COLUMNS = {key: _column(key, **entry) for key, entry in _TABLES["columns"].items()}
"""In the order in which they are trained."""


@dataclass(frozen=True)
class Standing:
    """A row in a column: means over its seeds."""

    row: str
    column: str
    seeds: int
    plain: dict[str, Estimate] = field(default_factory=dict)
    """By metric, as trained."""
    after: dict[str, Estimate] = field(default_factory=dict)
    """By metric, after the maximum likelihood temperature."""
    ece_above: Estimate | None = None
    """ECE as trained less that of cross-entropy after temperature scaling, seed by seed."""
    accuracy_above: Estimate | None = None
    """Accuracy less that of cross-entropy, seed by seed."""
    nll_above: Estimate | None = None
    """NLL as trained less that of cross-entropy after temperature scaling, seed by seed."""
    gaps: tuple[float, ...] = ()
    """Of each seed, the mean confidence less the accuracy of validation samples."""

    @property
    def calibrates(self) -> Answer | None:
        """Whether it calibrates by training alone; open where an interval holds the limit, None without seeds to pair."""
        if self.ece_above is None or self.accuracy_above is None or self.ece_above.high is None or self.accuracy_above.low is None:
            return None
        assert self.ece_above.low is not None
        assert self.accuracy_above.high is not None
        if self.ece_above.high <= LIMIT and self.accuracy_above.low >= -LIMIT:
            return "yes"
        return "no" if self.ece_above.low > LIMIT or self.accuracy_above.high < -LIMIT else "open"


@dataclass(frozen=True)
class Tournament:
    """What came of it. Fractions, as everywhere but in tables for people."""

    columns: dict[str, str]
    """Label by key."""
    standings: tuple[Standing, ...]
    costs: dict[str, float]
    """Seconds of a training step over those of cross-entropy, measured side by side, by row."""

    @property
    def runs(self) -> int:
        """How many finished runs it rests on."""
        return sum(each.seeds for each in self.standings)

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"schema": 1, **dataclasses.asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Tournament":
        """What `to_dict` made."""
        return cls(data["columns"], tuple(map(_standing_from_dict, data["standings"])), data["costs"])

    def beside(self, stored: "Tournament") -> "Tournament":
        """This and what a stored one has besides: rows that were trained before, and other columns."""
        places = {(each.column, each.row): each for each in (*stored.standings, *(each for each in self.standings if each.seeds))}
        columns = {key: column.label for key, column in COLUMNS.items() if key in self.columns | stored.columns}
        order = [(column, row) for column in columns for row in LABELS]
        return Tournament(columns, tuple(places[place] for place in order if place in places), stored.costs | self.costs)

    def of(self, row: str) -> list[Standing]:
        """A row in every column that has runs of it."""
        return [each for each in self.standings if each.row == row and each.seeds]


def chosen_columns(keys: Sequence[str], root: Path) -> tuple[list[Column], list[str]]:
    """Columns by key, all unless any are named, and the labels of those that are left out because their data is not below `root`."""
    for key in keys:
        if key not in COLUMNS:
            raise unknown_name("column of the tournament", key, COLUMNS)
    wanted = [column for key, column in COLUMNS.items() if not keys or key in keys]
    absent = [column for column in wanted if column.on_disk and not (root / column.on_disk).is_dir()]
    return [column for column in wanted if column not in absent], [column.label for column in absent]


def cells_of(column: Column, rows: Sequence[str], seeds: int) -> dict[tuple[str, str], Cell]:
    """The cells of one column, of all its rows unless any are named; cross-entropy is always among them."""
    for row in rows:
        if row not in LABELS:
            raise unknown_name("row of the tournament", row, LABELS)
    taking_part = [row for row in dict.fromkeys((*column.rows, *LABELS)) if row in (BASELINE, *(rows or column.rows))]
    return {(row, column.key): Cell(tuple(column.run(row, seed) for seed in range(seeds))) for row in taking_part}


def grid_of(column: Column, cells: Cells) -> Grid:
    """One column as a table that fills while it is trained."""
    return Grid(f"tournament, {column.label}", "ece", {row: LABELS[row] for row, _ in cells}, {column.key: column.label}, cells)


def tournament(cells: Cells, runs: Path, costs: Mapping[str, float]) -> Tournament:
    """What the finished runs below `runs` show."""
    columns = {key: COLUMNS[key].label for key in dict.fromkeys(column for _, column in cells)}
    stored = {where: {run.seed: StoredRun.locate(runs, run) for run in cell.runs} for where, cell in cells.items()}
    values = {where: {seed: _values(run) for seed, run in part.items() if run.finished} for where, part in stored.items()}
    standings = [_standing(row, column, found, values[BASELINE, column]) for (row, column), found in values.items()]
    return Tournament(columns, tuple(standings), dict(costs))


def _values(stored: StoredRun) -> dict[str, float]:
    result, val = stored.result(), stored.scores("val")
    plain, after = result.metrics["test"], result.temperature["nll"].test
    gap = confidence_gap(val.logits, val.labels)
    return {key: plain[key] for key in PLAIN} | {f"{key} after": after[key] for key in AFTER} | {"gap": gap}


def _standing(row: str, column: str, found: Mapping[int, Mapping[str, float]], base: Mapping[int, Mapping[str, float]]) -> Standing:
    if not found:
        return Standing(row, column, 0)

    def mean(key: str) -> Estimate:
        return over_seeds([each[key] for each in found.values()])

    def above(key: str, other: str) -> Estimate | None:
        pairs = [each[key] - base[seed][other] for seed, each in found.items() if seed in base]
        return over_seeds(pairs) if pairs else None

    means = {key: mean(key) for key in PLAIN}, {key: mean(f"{key} after") for key in AFTER}
    gaps = tuple(each["gap"] for each in found.values())
    paired = above("ece", "ece after"), above("accuracy", "accuracy"), above("nll", "nll after")
    return Standing(row, column, len(found), *means, *paired, gaps)


def _standing_from_dict(data: Mapping[str, Any]) -> Standing:
    fields = dict(data)
    for name in ("plain", "after"):
        fields[name] = {key: Estimate(**each) for key, each in data[name].items()}
    for name in ("ece_above", "accuracy_above", "nll_above"):
        fields[name] = None if data[name] is None else Estimate(**data[name])
    return Standing(**fields | {"gaps": tuple(data["gaps"])})
