"""Calibration under distribution shift as data: every corruption at every severity, means over corruptions, differences between methods."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rankmixup.evaluation.results import Difference, Estimate, NoiseFloor, _reports, plain

Stage = Literal["before", "after"]
STAGES: tuple[Stage, ...] = ("before", "after")
"""Before and after the temperature that was fitted on clean validation samples."""
SHIFT_METRICS = ("accuracy", "ece", "nll")
ImageKind = Literal["published files", "generated"]
ShiftFileKind = Literal["json", "csv", "markdown", "png", "svg"]


@dataclass(frozen=True)
class ShiftCell:
    """One corruption at one severity: accuracy, ece, ece_floor (the ECE that calibrated models show on average) and nll."""

    corruption: str
    """`clean` for the test samples as they are, at severity 0."""
    severity: int
    before: dict[str, float]
    after: dict[str, float]


@dataclass(frozen=True)
class ShiftSeverity:
    """Means over corruptions at one severity; 0 is the test samples as they are."""

    severity: int
    n: int
    """Images."""
    before: dict[str, Estimate]
    """By metric. The interval of one run is over images, that of several over seeds."""
    after: dict[str, Estimate]

    def of(self, stage: Stage) -> dict[str, Estimate]:
        """Before or after temperature scaling."""
        return self.before if stage == "before" else self.after

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        return {"severity": self.severity, "n": self.n, "before": plain(self.before), "after": plain(self.after)}


@dataclass(frozen=True)
class ShiftedRun:
    """One run."""

    source: str
    seed: int
    temperature: float
    severities: tuple[ShiftSeverity, ...]

    def value(self, severity: int, stage: Stage, metric: str) -> float:
        """A mean over corruptions."""
        return next(each.of(stage)[metric].value for each in self.severities if each.severity == severity)


@dataclass(frozen=True)
class ShiftDifference:
    """A mean over corruptions less that of the baseline."""

    severity: int
    stage: Stage
    metric: str
    difference: Difference


@dataclass(frozen=True)
class ShiftedMethod:
    """Runs that differ by their seed alone."""

    runs: tuple[ShiftedRun, ...]
    severities: tuple[ShiftSeverity, ...]
    cells: tuple[ShiftCell, ...]
    """Means over the runs."""
    differences: tuple[ShiftDifference, ...] = ()
    """From the baseline, which itself has none."""

    def at(self, severity: int) -> ShiftSeverity:
        """Means over corruptions."""
        return next(each for each in self.severities if each.severity == severity)

    def difference(self, severity: int, stage: Stage, metric: str) -> Difference | None:
        """From the baseline."""
        found = (each for each in self.differences if (each.severity, each.stage, each.metric) == (severity, stage, metric))
        return next((each.difference for each in found), None)


@dataclass(frozen=True)
class Reversal:
    """Two methods whose order on clean images turns round on corrupted ones, on the mean over corruptions and severities."""

    metric: str
    stage: Stage
    clean_better: str
    shifted_better: str
    clean: float
    """How much better the first is on clean images, mean over seeds."""
    shifted: float
    """How much better the second is on corrupted ones."""
    p_value: float
    """The larger of the two paired tests' p-values: both directions must be shown."""
    p_holm: float
    """Corrected over all pairs of methods."""


@dataclass(frozen=True)
class Shift:
    """Calibration of one or more methods under shift. Fractions, as everywhere but in tables for people."""

    baseline: str
    images: ImageKind
    image_size: int
    """Published size of images whose constants were used."""
    seed: int
    """Of what was drawn for generated images."""
    corruptions: tuple[str, ...]
    severities: tuple[int, ...]
    methods: dict[str, ShiftedMethod]
    reversals: tuple[Reversal, ...] = ()
    left_out: tuple[str, ...] = field(default=())
    """Corruptions that these images cannot have: of colours, where there are none."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON that `rankmixup shift --json` prints."""
        return {"schema": 1, **_plain(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Shift":
        """What `to_dict` made."""
        fields = {key: value for key, value in data.items() if key != "schema"}
        fields["methods"] = {name: _method(each) for name, each in data["methods"].items()}
        fields["reversals"] = tuple(Reversal(**each) for each in data["reversals"])
        for name in ("corruptions", "severities", "left_out"):
            fields[name] = tuple(data[name])
        return cls(**fields)

    def save(self, path: str | Path, kind: ShiftFileKind | None = None) -> Path:
        """Write the result; without `kind` the suffix decides: .json, .csv, .md, or .png and .svg for box plots by severity."""
        written: Path = _reports("shift").write_shift(self, Path(path), kind)
        return written

    def __str__(self) -> str:
        return _reports("tables").to_text(_reports("shift").shift_view(self))


def _plain(data: Any) -> Any:
    """JSON data of dataclasses within dataclasses."""
    if isinstance(data, ShiftSeverity | Estimate | Difference):
        return data.to_dict()
    if hasattr(data, "__dataclass_fields__"):
        return {name: _plain(getattr(data, name)) for name in data.__dataclass_fields__}
    if isinstance(data, Mapping):
        return {str(key): _plain(value) for key, value in data.items()}
    return [_plain(value) for value in data] if isinstance(data, tuple | list) else plain(data)


def _estimate(data: Mapping[str, Any]) -> Estimate:
    floor = None if data["floor"] is None else NoiseFloor(**data["floor"], p_value=data["p_value"])
    return Estimate(**{**data, "floor": floor})


def _severity(data: Mapping[str, Any]) -> ShiftSeverity:
    stages = ({key: _estimate(each) for key, each in data[stage].items()} for stage in STAGES)
    return ShiftSeverity(data["severity"], data["n"], *stages)


def _method(data: Mapping[str, Any]) -> ShiftedMethod:
    runs = tuple(ShiftedRun(**{**each, "severities": tuple(map(_severity, each["severities"]))}) for each in data["runs"])
    differences = tuple(ShiftDifference(**{**each, "difference": Difference(**each["difference"])}) for each in data["differences"])
    cells = tuple(ShiftCell(**each) for each in data["cells"])
    return ShiftedMethod(runs, tuple(map(_severity, data["severities"])), cells, differences)
