"""What commands are given: run directories and files of scores; and how they answer."""

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from rankmixup.errors import InvalidInput, one_line, require

if TYPE_CHECKING:
    from rankmixup.data import DataSource
    from rankmixup.evaluation import Scores
    from rankmixup.runs import StoredRun
    from rankmixup.training.ood import UnknownSamples

Kind = Annotated[
    Literal["logits", "probs"] | None,
    tyro.conf.arg(name="from", metavar="{logits,probs}", help_behavior_hint="(default: by its name)"),
]
"""What a file holds whose array has no name that says it."""
Sources = Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUN|FILE ...", help_behavior_hint="(required)")]
OODScore = Literal["entropy", "max-probability", "energy"]
Column = Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: label, target, y_true, ...)")]
Columns = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...", help_behavior_hint="(default: by their names)")]
OptionalPath = Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(optional)")]


@dataclass(kw_only=True)
class Sampling:
    """Options of every command that reads scores and resamples them."""

    from_: Kind = None
    """What csv files and bare tensors hold; named arrays say it themselves and must not be contradicted."""
    label_column: Column = None
    """Column of a csv file that holds the labels: its name, or its number from 0 where there is no header."""
    columns: Columns = ()
    """Columns of a csv file that hold the scores, in the order of the classes: names, or numbers from 0."""
    replicates: int = 1000
    """Resamples behind every interval, noise floor and p-value."""
    seed: int = 0
    """Seed of the resampling."""

    def check(self, *files: Path | str | None) -> None:
        """Refuse what no metric can be computed with; `files` are all that are read."""
        from rankmixup.evaluation.resampling import MOST_REPLICATES

        require(1 <= self.replicates <= MOST_REPLICATES, f"--replicates must be in 1..{MOST_REPLICATES}, got {self.replicates}")
        named = self.label_column is not None or bool(self.columns)
        require(not named or any(map(_is_csv, files)), "--label-column and --columns must go with a csv file, got none")

    def read(self, reader: "Callable[..., Scores]", path: Path) -> "Scores":
        """The scores in a file, by `Scores.read` or `Scores.read_unlabelled`."""
        columns = {"label_column": self.label_column, "columns": self.columns} if _is_csv(path) else {}
        try:
            return reader(path, self.from_, **columns)
        except InvalidInput as error:
            # The argument has another name here.
            raise InvalidInput(str(error).replace("kind must", "--from must")) from None


@dataclass(kw_only=True)
class Metrics(Sampling):
    """Those of commands that compute all metrics."""

    num_bins: int = 15
    """Bins of every binned metric, and of calibrators that have bins (histogram, or a temperature fitted by ece-grid); at most 1000."""

    def check(self, *files: Path | str | None) -> None:
        """As above, and what no bins can be made of."""
        from rankmixup.metrics.rows import MOST_BINS

        super().check(*files)
        require(1 <= self.num_bins <= MOST_BINS, f"--num-bins must be in 1..{MOST_BINS}, got {self.num_bins}")


@dataclass(kw_only=True)
class UnknownOptions(Sampling):
    """Those of commands that look at samples of no known class."""

    ood: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[NAME=]DATA|FILE ...", help_behavior_hint="(optional)")] = ()
    """Samples of no known class: data sets by name, folder:PATH or npz:PATH, which a run's network is shown, or files of scores."""
    score: OODScore = "entropy"
    """By what they are told from test samples; the paper's is entropy."""
    data_root: OptionalPath = None
    """Folder of the data sets that live on disk; by default RANKMIXUP_DATA, then data."""
    download: bool = False
    """Fetch data sets that are not there."""

    def check(self, *files: Path | str | None) -> None:
        """As above, and what only concerns unknown samples where there are none."""
        super().check(*files)
        asked = self.score != "entropy" or self.data_root is not None or self.download
        require(bool(self.ood) or not asked, "--score, --data-root and --download must go with --ood, got none")


@dataclass(frozen=True)
class Source:
    """Test scores with their name, and held-out scores to calibrate on where a run has them."""

    name: str
    test: "Scores"
    held_out: "Scores | None" = None
    fitted_on: str = ""
    stored: "StoredRun | None" = None

    @property
    def protocol(self) -> Literal["paper", "release"]:
        """Whether an epoch was selected and a temperature fitted on validation samples, or, as by the paper's release, on test samples."""
        return self.stored.run.data.protocol if self.stored is not None else "paper"


def open_source(path: Path, options: Sampling, calibrate_on: Path | None = None) -> Source:
    """A run directory with its validation and test scores, or a file of scores; `calibrate_on` goes before a run's validation scores."""
    from rankmixup.evaluation import Scores

    held_out, fitted_on, stored = None, "", None
    if path.is_dir():
        from rankmixup.runs import StoredRun

        require(options.from_ != "probs", f"--from must not contradict what is read, and {path} is a run, which holds logits; got 'probs'")
        stored = StoredRun.open(path)
        test, held_out, fitted_on = stored.scores("test"), stored.scores("val"), "val"
    else:
        test = options.read(Scores.read, path)
    if calibrate_on is not None:
        held_out, fitted_on = options.read(Scores.read, calibrate_on), calibrate_on.name
        if stored is not None and stored.run.data.protocol != "release":
            same = held_out.scores.shape == test.scores.shape and bool((held_out.scores == test.scores).all())
            require(not same, f"--calibrate-on must not be the run's own test scores, which nothing may be fitted on, got {calibrate_on}")
    return Source(one_line(str(path)), test, held_out, one_line(fitted_on), stored)


def read_ood(arguments: Sequence[str], options: "UnknownOptions", stored: "StoredRun | None") -> dict[str, "UnknownSamples"]:
    """Scores of unknown samples from arguments `FILE`, `DATA` or `NAME=` either; without a name, the file's or the data set's.

    Data sets are shown to the network of the run `stored`.
    """
    if not arguments:
        return {}

    from rankmixup.evaluation import Scores
    from rankmixup.training.ood import UnknownSamples, predict_unknown

    found: dict[str, UnknownSamples] = {}
    for argument in arguments:
        name, separator, rest = argument.partition("=")
        given = bool(separator) and not Path(argument).exists()
        text = rest if given else argument
        source = _data_source(text)
        where = Path(text.partition(":")[2] or text)
        name = name if given else where.name if where.is_dir() else where.stem
        name = one_line(name)
        require(bool(name), f"--ood must be DATA, FILE or NAME= before either, got {argument!r}")
        require(name not in found, f"--ood must give each set a name of its own (NAME=...), got {name!r} twice")
        if source is None:
            found[name] = UnknownSamples(options.read(Scores.read_unlabelled, Path(text)))
        elif stored is None:
            raise InvalidInput(f"--ood must be a file of scores where there is no run, whose network {text!r} could be shown to")
        else:
            found[name] = predict_unknown(stored, source, name, data_root=options.data_root, download=options.download)
    return found


def _data_source(text: str) -> "DataSource | None":
    """The data set that an argument means; None for a file of scores."""
    from rankmixup.data import DataSource, parse_source

    path = Path(text)
    if text.partition(":")[0] not in DataSource.registry:
        require(not path.is_dir(), f"--ood must be a file of scores or a data set, but {path} is a folder; folder:{path} is a data set")
        if path.suffix or path.exists():
            return None
    return parse_source(text)


def _is_csv(file: Path | str | None) -> bool:
    return str(file).lower().endswith(".csv")


@contextmanager
def spoken_warnings() -> Iterator[None]:
    """Warnings of the body as sentences on standard error, without the place in the code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for message in dict.fromkeys(str(each.message) for each in caught):
        print(f"warning: {one_line(message)}", file=sys.stderr)
