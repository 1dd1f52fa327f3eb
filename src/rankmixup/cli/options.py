"""Options that several commands share."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from rankmixup.errors import require, require_whole
from rankmixup.hardware import Hardware

if TYPE_CHECKING:
    from rankmixup.evaluation import Scores
    from rankmixup.training import Workplace

Json = Annotated[bool, tyro.conf.arg(help="Print one JSON object on standard output, and nothing else there.")]
Sources = Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUN|FILE ...", help_behavior_hint="(required)")]
OptionalPath = Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(optional)")]
Kind = Annotated[
    Literal["logits", "probs"] | None,
    tyro.conf.arg(name="from", metavar="{logits,probs}", help_behavior_hint="(default: from its name)"),
]
Column = Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: label, target, y_true, ...)")]
Columns = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...", help_behavior_hint="(default: from their names)")]


@dataclass(frozen=True, kw_only=True)
class Training:
    """Options of commands that train: where runs and data sets are, and how a run is saved and logged."""

    runs: Path = Path("runs")
    """Folder for the runs; finished runs are not trained again, interrupted runs continue."""
    data_root: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(default: RANKMIXUP_DATA, or data)")] = None
    """Folder that contains the data sets."""
    download: bool = False
    """Download data sets that are missing, if their licence allows it."""
    checkpoint_every: Annotated[str, tyro.conf.arg(metavar="Nsteps|Nmin")] = "1min"
    """How often a run is saved, such as 200steps or 5min; an interruption loses at most this much training."""
    log: tuple[Literal["tensorboard", "wandb", "mlflow"], ...] = ()
    """Log each run to these as well, besides its own log.jsonl and metrics.csv; nothing is sent to another machine."""
    json: Json = False

    def workplace(self, hardware: Hardware) -> "Workplace":
        """The same for the functions that train."""
        from rankmixup.training import Workplace

        return Workplace(self.runs, self.data_root, self.download, hardware, self.checkpoint_every, self.log)


@dataclass(kw_only=True)
class Sampling:
    """Options of every command that reads scores and resamples them."""

    from_: Kind = None
    """Whether csv files and unnamed tensors hold logits or probabilities; named arrays already say so."""
    label_column: Column = None
    """Column of a csv file that holds the labels: its name, or its number, counted from 0, if the file has no header."""
    columns: Columns = ()
    """Columns of a csv file that hold the scores, in the order of the classes: names, or numbers counted from 0."""
    replicates: int = 1000
    """Number of resamples for every interval, noise floor and p-value."""
    seed: int = 0
    """Seed of the resampling."""

    def check(self, *files: Path | str | None) -> None:
        """Refuse invalid options before any work; `files` are all files that will be read."""
        from rankmixup.evaluation.resampling import MOST_REPLICATES

        require_whole("--replicates", self.replicates, least=1, most=MOST_REPLICATES)
        named = self.label_column is not None or bool(self.columns)
        require(not named or any(map(_is_csv, files)), "--label-column and --columns must go with a csv file, got none")

    def read(self, path: Path, *, labelled: bool = True) -> "Scores":
        """The scores in a file."""
        from rankmixup.evaluation import Scores

        label_column, columns = (self.label_column, self.columns) if _is_csv(path) else (None, ())
        return Scores.read(path, self.from_, labelled=labelled, label_column=label_column, columns=columns)


@dataclass(kw_only=True)
class Metrics(Sampling):
    """Options of commands that compute metrics."""

    num_bins: int = 15
    """Number of bins, 1 to 1000, of binned metrics and of calibrators that use bins."""

    def check(self, *files: Path | str | None) -> None:
        """As for `Sampling`."""
        from rankmixup.metrics.rows import MOST_BINS

        super().check(*files)
        require_whole("--num-bins", self.num_bins, least=1, most=MOST_BINS)


@dataclass(kw_only=True)
class Calibration(Metrics):
    """Options of commands that calibrate scores."""

    calibrate_with: str = "temperature"
    """Calibration method: a name from `rankmixup list calibrators`."""
    objective: Annotated[str | None, tyro.conf.arg(metavar="{nll,ece-grid}", help_behavior_hint="(optional)")] = None
    """What the calibrator minimises: for a temperature the NLL (default), or, by the paper's grid search, the ECE."""

    def check(self, *files: Path | str | None) -> None:
        """As for `Metrics`."""
        from rankmixup.posthoc import CALIBRATORS

        super().check(*files)
        CALIBRATORS[self.calibrate_with]

    def check_held_out(self, given: bool) -> None:
        """Refuse a choice of calibration if there is nothing to calibrate on."""
        chosen = self.calibrate_with != "temperature" or self.objective is not None
        require(given or not chosen, "--calibrate-with and --objective must go with --calibrate-on or a run, got neither")


@dataclass(kw_only=True)
class OODOptions(Sampling):
    """Options of commands that detect out-of-distribution (OOD) samples."""

    ood: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[NAME=]DATA|FILE ...", help_behavior_hint="(optional)")] = ()
    """OOD samples: files of scores, or, for a run, data sets (a name, folder:PATH or npz:PATH), which its network then predicts."""
    score: Literal["entropy", "max-probability", "energy"] = "entropy"
    """Score that detects them; the paper uses entropy."""
    data_root: OptionalPath = None
    """Folder that contains the data sets; by default RANKMIXUP_DATA, then data."""
    download: bool = False
    """Download data sets that are missing."""

    def check(self, *files: Path | str | None) -> None:
        """As for `Sampling`."""
        super().check(*files)
        used = self.score != "entropy" or self.data_root is not None or self.download
        require(bool(self.ood) or not used, "--score, --data-root and --download must go with --ood, got none")


def _is_csv(file: Path | str | None) -> bool:
    return str(file).lower().endswith(".csv")
