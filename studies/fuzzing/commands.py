"""Command lines, in this process: right files with any flags, odd names and damaged run directories."""

import contextlib
import io
import json
from pathlib import Path

import numpy as np

from rankmixup.cli.main import main
from studies.fuzzing.case import Difference, Verdict, require_one_sentence
from studies.fuzzing.oracle import agree
from studies.fuzzing.score_files import write_scores
from studies.fuzzing.values import Sample, draw_sample

__all__ = ["call", "require_orderly", "try_command"]

_NAMES = ("scores", "m[/x]", "[bold]", "a\nb", "ünïcödé", "a b", "x" * 200, "-", "--json", "\udcff", "%s", "a,b", "'\"", "~", "..a")
_NUMBERS = ("0", "1", "15", "-1", "2.5", "1e308", "nan", "inf", "x", "", str(10**20), "0x10", "1_0", "½")
_CONDITIONS = ("ece>3", "ece>3%", "ece>0.03:low", "calibrated.ece>2%", "ece>", "x>0.1", "accuracy<0.9", "nll>-1", "ece>1e999", "ece=1")
_CONDITIONS += ("nll>50%", "Ece>0.1", "calibrated.x<1", "mce>0.5:high", "ece<0", "ood.x.auroc<0.5", "[red]>1", "")
_WORDS = (
    "temperature",
    "vector",
    "ensemble-temperature",
    "isotonic",
    "histogram",
    "ece-grid",
    "nll",
    "logits",
    "probs",
    "entropy",
    "energy",
    "x",
    "[/x]",
)
_FLAGS = (
    "--num-bins",
    "--replicates",
    "--seed",
    "--calibrate-with",
    "--objective",
    "--fail-if",
    "--from",
    "--score",
    "--metric",
    "--baseline",
)
_FLAGS += (
    "--lr",
    "--epochs",
    "--margin",
    "--mixer",
    "--mixer.alpha",
    "--model",
    "--data",
    "--devices",
    "--strategy",
    "--log",
    "--milestones",
)
_FLAGS += (
    "--seeds",
    "--scale",
    "--workers",
    "--accelerator",
    "--selection",
    "--checkpoint-every",
    "--label-column",
    "--columns",
    "--max-gib",
)


def call(*argv: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a command."""
    # As a terminal has them: text that is no UTF-8 cannot be printed, but standard error escapes it.
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(list(argv))
        except SystemExit as stop:  # --help
            status = stop.code if isinstance(stop.code, int) else int(bool(stop.code))
    for stream in (out, err):
        stream.seek(0)
    return status, out.read(), err.read()


def require_orderly(status: int, out: str, err: str, *, as_json: bool) -> None:
    """An exit status that means something; with it one JSON object, or one sentence about what is wrong."""
    if status not in (0, 1, 2):
        raise Difference(f"the exit status must be 0, 1 or 2, got {status}")
    if "Traceback" in err:
        raise Difference(f"no traceback must be shown, got {err[-200:]!r}")
    if status == 2:
        errors = [line for line in err.strip().splitlines() if not line.startswith("warning:")]
        require_one_sentence("\n".join(errors))
    elif as_json and out.strip():
        json.loads(out, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> None:
    raise Difference(f"JSON must not hold {name}")


def try_command(rng: np.random.Generator, folder: Path) -> Verdict:
    """One command line."""
    kind = rng.choice(["evaluate", "odd name", "flags"], p=[0.3, 0.3, 0.4])
    if kind == "evaluate":
        return _evaluate(rng, folder)
    argv = _odd_names(rng, folder) if kind == "odd name" else _any_flags(rng, folder)
    status, out, err = call(*argv)
    require_orderly(status, out, err, as_json="--json" in argv)
    return "refused" if status == 2 else "answered"


def _evaluate(rng: np.random.Generator, folder: Path) -> Verdict:
    """A right file: the figures must be the oracle's."""
    sample = draw_sample(rng)
    path = folder / f"scores{rng.choice(['.npz', '.pt', '.safetensors', '.csv'])}"
    write_scores(rng, path, sample)
    status, out, err = call("evaluate", str(path), "--json", "--replicates", "10")
    require_orderly(status, out, err, as_json=True)
    if status != 0:
        raise Difference(f"a right file must be evaluated, got: {err}")
    found = json.loads(out)
    if (found["n"], found["num_classes"]) != sample.scores.shape:
        raise Difference(f"{sample.scores.shape} samples and classes must be evaluated, got {found['n']} and {found['num_classes']}")
    agree({key: entry and entry["value"] for key, entry in found["metrics"].items()}, sample)
    return "agrees"


def _pick(rng: np.random.Generator, choices: tuple[str, ...]) -> str:
    return choices[int(rng.integers(len(choices)))]


def _scores(rng: np.random.Generator, path: Path, sample: Sample | None = None) -> Path:
    sample = sample or draw_sample(rng, classes=3)
    with contextlib.suppress(OSError, UnicodeError):  # a name that the file system refuses
        write_scores(rng, path, sample)
    return path


def _odd_names(rng: np.random.Generator, folder: Path) -> list[str]:
    name = _pick(rng, _NAMES)
    path = str(_scores(rng, folder / f"{name}.npz"))
    output = str(folder / f"{_pick(rng, _NAMES)}{_pick(rng, ('', '/' + 'y' * 300, '/x'))}")
    choices = (
        ["evaluate", path, "--replicates", "10", *_maybe(rng, "--json"), *_maybe(rng, "--csv", output), *_maybe(rng, "--html", output)],
        ["evaluate", path, "--calibrate-on", output, "--json", "--replicates", "10"],
        ["compare", path, str(_scores(rng, folder / "other.npz")), "--replicates", "10", *_maybe(rng, "--json")],
        ["ood", path, "--ood", f"{_pick(rng, _NAMES)}={path}", "--replicates", "10", *_maybe(rng, "--json")],
        ["report", path, "-o", output, "--replicates", "10"],
        ["runs", "--runs", output, *_maybe(rng, "--json")],
        ["train", "ce", "--runs", output, "--show"],
        ["train", "--resume", output],
        ["train", "ce", "--data", f"{_pick(rng, ('folder', 'npz'))}:{output}", "--show"],
    )
    return choices[int(rng.integers(len(choices)))]


def _maybe(rng: np.random.Generator, *arguments: str) -> tuple[str, ...]:
    return arguments if rng.random() < 0.5 else ()


def _any_flags(rng: np.random.Generator, folder: Path) -> list[str]:
    path = str(_scores(rng, folder / f"scores{_pick(rng, ('.npz', '.csv', '.pt'))}"))
    heads = (
        ["evaluate", path, "--replicates", "10"],
        ["evaluate", path, "--replicates", "10", "--calibrate-on", path],
        ["compare", path, path, "--replicates", "10"],
        ["ood", path, "--ood", f"a={path}", "--replicates", "10"],
        ["train", _pick(rng, ("ce", "rankmixup-mrl", "rankmixup-mndcg", "rankmixup-auto", "mixup", "x")), "--show"],
        ["sweep", _pick(rng, ("ce", "rankmixup-mrl")), "--dry-run", "--runs", str(folder / "runs")],
        ["reproduce", _pick(rng, ("table5", "figure2", "x")), "--scale", "quick", "--dry-run", "--runs", str(folder / "runs")],
        ["list", _pick(rng, ("methods", "mixers", "models", "data", "experiments", "metrics", "x"))],
    )
    argv = heads[int(rng.integers(len(heads)))]
    for _ in range(int(rng.integers(1, 4))):
        values = [_pick(rng, _NUMBERS + _CONDITIONS + _WORDS) for _ in range(int(rng.choice([0, 1, 2], p=[0.1, 0.8, 0.1])))]
        argv = [*argv, _pick(rng, _FLAGS), *values]
    return [*argv, *_maybe(rng, "--json")]
