"""Options of commands that read scores, from run directories and from files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from rankmixup.errors import InvalidInput, one_line, require, require_whole

if TYPE_CHECKING:
    from rankmixup.data import DataSource
    from rankmixup.evaluation import Evaluation, Scores
    from rankmixup.evaluation.acceptance import Threshold
    from rankmixup.evaluation.group_labels import Values
    from rankmixup.posthoc import Calibrator
    from rankmixup.runs import StoredRun

Json = Annotated[bool, tyro.conf.arg(help="Print one JSON object on standard output, and nothing else there.")]
Each = Annotated[bool, tyro.conf.arg(help="Let each run stand for itself: runs that differ by their seed alone are not one model then.")]
Sources = Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUN|FILE ...", help_behavior_hint="(required)")]
OptionalPath = Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(optional)")]
Kind = Annotated[
    Literal["logits", "probs"] | None,
    tyro.conf.arg(name="from", metavar="{logits,probs}", help_behavior_hint="(default: from its name)"),
]
Column = Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: label, target, y_true, ...)")]
Columns = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...", help_behavior_hint="(default: from their names)")]


AcceptAt = Annotated[str | None, tyro.conf.arg(metavar="accuracy=95%", help_behavior_hint="(optional)")]


@dataclass(frozen=True)
class Source:
    """Test scores with their name, and held-out scores to calibrate on if there are any."""

    name: str
    test: "Scores"
    held_out: "Scores | Calibrator | None" = None
    fitted_on: str = ""
    stored: "StoredRun | None" = None
    threshold: "Threshold | None" = None
    """Of an exported folder."""
    groups: "Mapping[str, Values]" = field(default_factory=dict)
    """Groups of the test samples that were found."""


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
        more = {"other_columns": self.other_columns} if _is_csv(path) else {}
        return Scores.read(path, self.from_, labelled=labelled, label_column=label_column, columns=columns, **more)

    @property
    def other_columns(self) -> tuple[str, ...]:
        """Columns of csv files that are neither scores nor labels."""
        return ()

    def open(self, path: Path, calibrate_on: Path | None = None) -> Source:
        """A run directory with its validation and test scores, or a file of scores; `calibrate_on` replaces a run's validation scores."""
        held_out, fitted_on, stored = None, "", None
        if path.is_dir():
            from rankmixup.runs import StoredRun

            require(self.from_ != "probs", f"--from must be logits for {path}, since it is a run, got 'probs'")
            stored = StoredRun.open(path)
            test, held_out, fitted_on = stored.scores("test"), stored.scores("val"), "val"
        else:
            test = self.read(path)
        if calibrate_on is not None:
            held_out, fitted_on = self.read(calibrate_on), calibrate_on.name
            if stored is not None and stored.run.data.protocol != "release":
                same = held_out.scores.shape == test.scores.shape and bool((held_out.scores == test.scores).all())
                require(not same, f"--calibrate-on must not be the run's own test scores, got {calibrate_on}")
        return Source(one_line(str(path)), test, held_out, one_line(fitted_on), stored)


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
    objective: Annotated[str | None, tyro.conf.arg(metavar="{nll,ece-grid,...}", help_behavior_hint="(optional)")] = None
    """What the calibrator minimises: for a temperature the NLL (default), or, by the paper's grid search, the ECE; for Platt scaling nll
    (default) or smoothed-nll."""

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
class Evaluating(Calibration):
    """Options of commands that evaluate models one by one."""

    positive: Annotated[str | None, tyro.conf.arg(metavar="NAME|INDEX", help_behavior_hint="(default: class 1 of two)")] = None
    """Class whose probability verdicts, groups and figures are about first: observed over expected, intercept and slope, ECE and AUROC."""

    def evaluate(self, source: Source, **ood: Any) -> "Evaluation":
        """All metrics, before and after calibration; `ood` is passed on to `evaluate_scores`."""
        from rankmixup.evaluation import evaluate_scores

        settings = {name: getattr(self, name) for name in ("calibrate_with", "objective", "positive", "num_bins", "replicates", "seed")}
        protocol = source.stored.run.data.protocol if source.stored is not None else "paper"
        names: dict[str, Any] = {"source": source.name, "fitted_on": source.fitted_on, "protocol": protocol}
        return evaluate_scores(source.test, source.held_out, **names, **settings, **ood)


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
        require(self.reads_data or not used, "--score, --data-root and --download must go with --ood, got none")

    @property
    def reads_data(self) -> bool:
        """Whether a data set may be read."""
        return bool(self.ood)

    @property
    def ood_files(self) -> tuple[str, ...]:
        """Every path that may be meant by `ood`."""
        return tuple(text for each in self.ood for text in (each, each.partition("=")[2]) if text)

    def read_ood(self, stored: "StoredRun | None") -> tuple[dict[str, "Scores"], dict[str, tuple[str, ...]]]:
        """Scores of each OOD set by its name, and the classes that it shares with the run, which are not OOD.

        An argument is `FILE` or `DATA`, with `NAME=` before it or named after the file or data set, which the network of `stored` predicts.
        """
        found: dict[str, Scores] = {}
        shared: dict[str, tuple[str, ...]] = {}
        for argument in self.ood:
            name, separator, rest = argument.partition("=")
            given = bool(separator) and not Path(argument).exists()
            text = rest if given else argument
            source = data_source(text, "--ood")
            where = Path(text.partition(":")[2] or text)
            name = one_line(name if given else where.name if where.is_dir() else where.stem)
            require(bool(name), f"--ood must be DATA or FILE, optionally with NAME= before it, got {argument!r}")
            require(name not in found, f"--ood must give each set its own name (NAME=...), got {name!r} twice")
            if source is None:
                found[name] = self.read(Path(text), labelled=False)
            elif stored is None:
                raise InvalidInput(f"--ood must be a file of scores unless a run is evaluated, which predicts data sets, got {text!r}")
            else:
                from rankmixup.training.ood import predict_unknown

                predicted = predict_unknown(stored, source, name, data_root=self.data_root, download=self.download)
                found[name], shared[name] = predicted.scores, predicted.shared_classes
        return found, shared


def data_source(text: str, option: str) -> "DataSource | None":
    """The data set that an argument of an option means; None for a file of scores."""
    from rankmixup.data import DataSource, parse_source

    path = Path(text)
    if text.partition(":")[0] not in DataSource.registry:
        require(not path.is_dir(), f"{option} must be a file of scores or a data set, but {path} is a folder; folder:{path} is a data set")
        if path.suffix or path.exists():
            return None
    return parse_source(text)


def _is_csv(file: Path | str | None) -> bool:
    return str(file).lower().endswith(".csv")
