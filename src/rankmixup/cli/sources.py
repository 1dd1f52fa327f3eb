"""What commands are given: run directories and files of scores."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankmixup.cli.options import Calibration, OODOptions, Sampling
from rankmixup.errors import InvalidInput, one_line, require

if TYPE_CHECKING:
    from rankmixup.data import DataSource
    from rankmixup.evaluation import Evaluation, Scores
    from rankmixup.runs import StoredRun


@dataclass(frozen=True)
class Source:
    """Test scores with their name, and held-out scores to calibrate on if there are any."""

    name: str
    test: "Scores"
    held_out: "Scores | None" = None
    fitted_on: str = ""
    stored: "StoredRun | None" = None

    def evaluate(self, options: Calibration, **ood: Any) -> "Evaluation":
        """All metrics, before and after calibration; `ood` is passed on to `evaluate_scores`."""
        from rankmixup.evaluation import evaluate_scores

        settings = {name: getattr(options, name) for name in ("calibrate_with", "objective", "num_bins", "replicates", "seed")}
        protocol = self.stored.run.data.protocol if self.stored is not None else "paper"
        names: dict[str, Any] = {"source": self.name, "fitted_on": self.fitted_on, "protocol": protocol}
        return evaluate_scores(self.test, self.held_out, **names, **settings, **ood)


def open_source(path: Path, options: Sampling, calibrate_on: Path | None = None) -> Source:
    """A run directory with its validation and test scores, or a file of scores; `calibrate_on` replaces a run's validation scores."""
    held_out, fitted_on, stored = None, "", None
    if path.is_dir():
        from rankmixup.runs import StoredRun

        require(options.from_ != "probs", f"--from must be logits for {path}, since it is a run, got 'probs'")
        stored = StoredRun.open(path)
        test, held_out, fitted_on = stored.scores("test"), stored.scores("val"), "val"
    else:
        test = options.read(path)
    if calibrate_on is not None:
        held_out, fitted_on = options.read(calibrate_on), calibrate_on.name
        if stored is not None and stored.run.data.protocol != "release":
            same = held_out.scores.shape == test.scores.shape and bool((held_out.scores == test.scores).all())
            require(not same, f"--calibrate-on must not be the run's own test scores, got {calibrate_on}")
    return Source(one_line(str(path)), test, held_out, one_line(fitted_on), stored)


def read_ood(options: OODOptions, stored: "StoredRun | None") -> tuple[dict[str, "Scores"], dict[str, tuple[str, ...]]]:
    """Scores of each OOD set by its name, and the classes that it shares with the run, which are not OOD.

    An argument is `FILE` or `DATA`, with `NAME=` before it or named after the file or data set. The network of the run `stored` predicts
    data sets.
    """
    found: dict[str, Scores] = {}
    shared: dict[str, tuple[str, ...]] = {}
    for argument in options.ood:
        name, separator, rest = argument.partition("=")
        given = bool(separator) and not Path(argument).exists()
        text = rest if given else argument
        source = _data_source(text)
        where = Path(text.partition(":")[2] or text)
        name = one_line(name if given else where.name if where.is_dir() else where.stem)
        require(bool(name), f"--ood must be DATA or FILE, optionally with NAME= before it, got {argument!r}")
        require(name not in found, f"--ood must give each set its own name (NAME=...), got {name!r} twice")
        if source is None:
            found[name] = options.read(Path(text), labelled=False)
        elif stored is None:
            raise InvalidInput(f"--ood must be a file of scores unless a run is evaluated, whose network predicts data sets, got {text!r}")
        else:
            from rankmixup.training.ood import predict_unknown

            predicted = predict_unknown(stored, source, name, data_root=options.data_root, download=options.download)
            found[name], shared[name] = predicted.scores, predicted.shared_classes
    return found, shared


def _data_source(text: str) -> "DataSource | None":
    """The data set that an argument means; None for a file of scores."""
    from rankmixup.data import DataSource, parse_source

    path = Path(text)
    if text.partition(":")[0] not in DataSource.registry:
        require(not path.is_dir(), f"--ood must be a file of scores or a data set, but {path} is a folder; folder:{path} is a data set")
        if path.suffix or path.exists():
            return None
    return parse_source(text)
