"""Ours: methods of the tournament on corrupted images, with the same runs. Not an experiment of the paper."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rankmixup.evaluation import Shift
from rankmixup.experiments.tournament import BASELINE, COLUMNS, LABELS, Cells
from rankmixup.hardware import Hardware
from rankmixup.runs import StoredRun
from rankmixup.training import shift

_SETTINGS: dict[str, Any] = tomllib.loads((Path(__file__).parent / "shift.toml").read_text(encoding="utf-8"))
SHIFT_ROWS: list[str] = _SETTINGS["rows"]
SHIFT_COLUMNS: list[str] = _SETTINGS["columns"]
QUICK_COLUMNS: list[str] = _SETTINGS["quick"]


@dataclass(frozen=True)
class ShiftStudy:
    """Results by column of the tournament."""

    columns: dict[str, Shift]

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"schema": 1, "columns": {key: found.to_dict() for key, found in self.columns.items()}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "ShiftStudy":
        """What `to_dict` made."""
        return cls({key: Shift.from_dict(each) for key, each in data["columns"].items()})

    def beside(self, stored: "ShiftStudy") -> "ShiftStudy":
        """This and those columns of a stored one that it does not have."""
        both = stored.columns | self.columns
        return ShiftStudy({key: both[key] for key in COLUMNS if key in both})

    @property
    def runs(self) -> int:
        """How many runs it rests on."""
        return sum(len(method.runs) for found in self.columns.values() for method in found.methods.values())


def shift_study(
    cells: Cells,
    runs: Path,
    data_root: Path | None,
    *,
    limit: int | None = None,
    replicates: int = 1000,
    severities: Sequence[int] = (),
    hardware: Hardware = Hardware(),  # noqa: B008 - frozen
) -> ShiftStudy:
    """What the finished runs below `runs` show on corrupted images; a column without runs of cross-entropy is left out.

    `limit` and `severities` replace those of shift.toml.
    """
    found = {}
    for column in dict.fromkeys(column for _, column in cells):
        located = {row: [StoredRun.locate(runs, run) for run in cell.runs] for (row, of), cell in cells.items() if of == column}
        finished = {row: [each for each in members if each.finished] for row, members in located.items()}
        if not finished.get(BASELINE):
            continue
        result = shift(
            [each for members in finished.values() for each in members],
            corruptions=_SETTINGS["corruptions"],
            severities=severities or _SETTINGS["severities"],
            images="generated",
            limit=limit or _SETTINGS["limit"],
            baseline=LABELS[BASELINE],
            labels={each.run.id: LABELS[row] for row, members in finished.items() for each in members},
            replicates=replicates,
            data_root=data_root,
            hardware=hardware,
        )
        # Where the runs were does not belong into results that are shared; their ids say which they are.
        methods = {
            name: replace(method, runs=tuple(replace(run, source=Path(run.source).name) for run in method.runs))
            for name, method in result.methods.items()
        }
        found[column] = replace(result, methods=methods)
    return ShiftStudy(found)
