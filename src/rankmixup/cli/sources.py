"""What commands are given: run directories and files of scores; and how they answer."""

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from rankmixup.errors import InvalidInput, require

if TYPE_CHECKING:
    from rankmixup.runs import Scores, StoredRun

Kind = Annotated[
    Literal["logits", "probs"] | None,
    tyro.conf.arg(name="from", metavar="{logits,probs}", help_behavior_hint="(default: by its name)"),
]
"""What a file holds whose array has no name that says it."""
Sources = Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUN|FILE ...", help_behavior_hint="(required)")]
OODScore = Literal["entropy", "max-probability", "energy"]
OptionalPath = Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(optional)")]


@dataclass(kw_only=True)
class Sampling:
    """Options of every command that reads scores and resamples them."""

    from_: Kind = None
    """What csv files and bare tensors hold; named arrays say it themselves and must not be contradicted."""
    replicates: int = 1000
    """Resamples behind every interval, noise floor and p-value."""
    seed: int = 0
    """Seed of the resampling."""

    def check(self) -> None:
        """Refuse what no metric can be computed with."""
        require(self.replicates >= 1, f"--replicates must be at least 1, got {self.replicates}")


@dataclass(kw_only=True)
class Metrics(Sampling):
    """Those of commands that compute all metrics."""

    num_bins: int = 15
    """Bins of every binned metric."""

    def check(self) -> None:
        """As above, and what no bins can be made of."""
        super().check()
        require(self.num_bins >= 1, f"--num-bins must be at least 1, got {self.num_bins}")


@dataclass(frozen=True)
class Source:
    """Test scores with their name, and held-out scores to calibrate on where a run has them."""

    name: str
    test: "Scores"
    held_out: "Scores | None" = None
    fitted_on: str = ""
    stored: "StoredRun | None" = None


def open_source(path: Path, kind: Literal["logits", "probs"] | None = None, calibrate_on: Path | None = None) -> Source:
    """A run directory with its validation and test scores, or a file of scores; `calibrate_on` goes before a run's validation scores."""
    from rankmixup.runs import Scores, StoredRun

    held_out, fitted_on, stored = None, "", None
    if path.is_dir():
        require(kind != "probs", f"--from must not contradict what is read, and {path} is a run, which holds logits; got 'probs'")
        stored = StoredRun.open(path)
        test, held_out, fitted_on = stored.predictions("test"), stored.predictions("val"), "val"
    else:
        test = _read(Scores.read, path, kind)
    if calibrate_on is not None:
        held_out, fitted_on = _read(Scores.read, calibrate_on, kind), calibrate_on.name
    return Source(str(path), test, held_out, fitted_on, stored)


def read_ood(arguments: Sequence[str], kind: Literal["logits", "probs"] | None) -> dict[str, "Scores"]:
    """Scores of unknown samples from arguments `FILE` or `NAME=FILE`; without a name, the file's."""
    from rankmixup.runs import Scores

    found: dict[str, Scores] = {}
    for argument in arguments:
        name, separator, file = argument.partition("=")
        path = Path(file) if separator and not Path(argument).exists() else Path(argument)
        name = name if separator and path != Path(argument) else path.stem
        require(bool(name), f"--ood must be FILE or NAME=FILE, got {argument!r}")
        require(name not in found, f"--ood must give each set a name of its own (NAME=FILE), got {name!r} twice")
        if path.is_dir():
            raise InvalidInput(f"--ood must be a file of scores, but {path} is a folder")
        found[name] = _read(Scores.read_unlabelled, path, kind)
    return found


def _read(reader: "Callable[[Path, str | None], Scores]", path: Path, kind: str | None) -> "Scores":
    try:
        return reader(path, kind)
    except InvalidInput as error:
        # The argument has another name here.
        raise InvalidInput(str(error).replace("kind must", "--from must")) from None


def require_writable(*paths: Path | None) -> None:
    """Refuse, before any work, files that could not be written after it."""
    for path in paths:
        if path is not None:
            require(path.parent.is_dir(), f"{path} must be in a folder that exists, {path.parent} does not")
            require(not path.is_dir(), f"{path} must be a file, it is a folder")


@contextmanager
def spoken_warnings() -> Iterator[None]:
    """Warnings of the body as sentences on standard error, without the place in the code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for message in dict.fromkeys(str(each.message) for each in caught):
        print(f"warning: {message}", file=sys.stderr)
