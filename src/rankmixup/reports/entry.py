"""What a report is told about each model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from rankmixup.errors import require
from rankmixup.evaluation import Scores
from rankmixup.runs import StoredRun

if TYPE_CHECKING:
    from rankmixup.evaluation import Evaluation


@dataclass(frozen=True)
class ReportEntry:
    """One model in a report: its evaluation, and the scores that figures and the table of classes are drawn from."""

    name: str
    evaluation: "Evaluation"
    scores: Scores
    """Of the test set, before calibration."""
    calibrated: Scores | None = None
    """The same after calibration, if there was one."""
    class_names: Sequence[str] | None = None
    protocol: Mapping[str, Any] = field(default_factory=dict)
    """How the model came about, as names and values (or names and further such mappings); see `run_protocol`."""
    mixed: tuple[Float[Tensor, "M K"], Float[Tensor, " M"]] | None = None
    """Logits of mixed samples and their lambda."""
    ood: Mapping[str, Scores] = field(default_factory=dict)
    """Scores of out-of-distribution sets; their labels are not looked at."""

    def __post_init__(self) -> None:
        classes = self.scores.scores.shape[1]
        names = self.class_names
        require(
            names is None or len(names) == classes,
            f"class_names of {self.name!r} must be {classes}, one for each class, got {len(names or ())}",
        )

    @property
    def classes(self) -> list[str]:
        """Names of the classes, or their numbers."""
        return [str(name) for name in self.class_names or range(self.scores.scores.shape[1])]


def run_protocol(stored: StoredRun) -> dict[str, Any]:
    """What a run directory says of itself: configuration, sizes and hashes of its splits, selection, versions."""
    selection, splits, environment = stored.result().selection, stored.splits(), stored.environment()
    return {
        "run": stored.run.id,
        **stored.run.to_dict(),
        "selection": f"{selection.rule} on validation, epoch {selection.epoch}",
        "splits": {name: f"{part.size:,} samples, sha256 {part.sha256[:12]}" for name, part in (splits.parts if splits else {}).items()},
        "python": environment and environment.python,
        "platform": environment and environment.platform,
        "versions": environment.packages if environment else {},
    }
