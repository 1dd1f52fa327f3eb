"""rankmixup train.

Two stages, so that every field of a method, its mixer and its data set is a flag: first the names that choose classes
(`METHOD`, `--mixer NAME`, `--data NAME`) are taken out of the arguments, then tyro parses the rest against those classes.
"""

import dataclasses
import inspect
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from rankmixup.cli.parsing import parse
from rankmixup.errors import InvalidInput, require

if TYPE_CHECKING:
    from rankmixup.data import DataSource
    from rankmixup.methods import Method
    from rankmixup.runs import Run


_UNSET = tyro.conf.arg(metavar="PATH", help_behavior_hint="(optional)")


def _recipe(metavar: str) -> Any:
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="(default: the data set's recipe)")


@dataclass(frozen=True)
class Options:
    """Options of every method."""

    model: str = "resnet8"
    """Network; see `rankmixup list models`."""
    seed: int = 0
    """Seed of every random stream of the run."""
    selection: Literal["accuracy", "nll", "last"] = "accuracy"
    """Which epoch is kept: best validation accuracy (the paper), lowest validation NLL, or the last."""
    epochs: Annotated[int | None, _recipe("INT")] = None
    """Passes over the training set."""
    batch_size: Annotated[int | None, _recipe("INT")] = None
    """Samples in a step, over all devices."""
    lr: Annotated[float | None, _recipe("FLOAT")] = None
    """Learning rate at the start."""
    milestones: Annotated[tuple[int, ...] | None, _recipe("INT [INT ...]")] = None
    """Epochs after which the learning rate drops to a tenth."""
    weight_decay: Annotated[float | None, _recipe("FLOAT")] = None
    """Weight decay, on all parameters."""
    clip: Annotated[float | None, _recipe("FLOAT")] = None
    """Largest norm of the whole gradient; 0 does not clip."""
    runs: Path = Path("runs")
    """Where runs are kept."""
    data_root: Annotated[Path | None, _UNSET] = None
    """Folder of the data sets that live on disk."""
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Kind of device."""
    devices: int = 1
    """How many of them."""
    json: bool = False
    """Print the result as one JSON object on standard output, and nothing else there."""


_RECIPE_FIELDS = ("epochs", "batch_size", "lr", "milestones", "weight_decay", "clip")
_DESCRIPTION = """Train a network with a method.

METHOD is a name from `rankmixup list methods`; `rankmixup train METHOD --help` shows its own options too.
--mixer NAME and --data NAME choose a mixer and a data set (`rankmixup list mixers`, `rankmixup list data`), whose fields are
then --mixer.FIELD and --data.FIELD. An interrupted run continues with the same command, or with
`rankmixup train --resume RUN`; a finished one is not trained again."""


def run(argv: list[str]) -> int:
    """Parse and run."""
    require(len(argv) > 0, "METHOD must be given, a name from 'rankmixup list methods', got nothing")
    if argv[0] in ("-h", "--help"):
        parse(Options, ["--help"], prog="rankmixup train METHOD", description=_DESCRIPTION)
    if argv[0] == "--resume" or argv[0].startswith("--resume="):
        the_run, options = _resumed(argv)
    else:
        the_run, options = _requested(argv)

    from rich.console import Console

    from rankmixup.reports import evaluate_scores
    from rankmixup.reports.tables import evaluation_table
    from rankmixup.training import Watcher, is_first_process, train

    stored = train(
        the_run, runs=options.runs, data_root=options.data_root, accelerator=options.accelerator, devices=options.devices, watcher=Watcher()
    )
    if not is_first_process():
        return 0
    if options.json:
        print(json.dumps(stored.result, allow_nan=False))
    else:
        console = Console()
        test, val = stored.predictions("test"), stored.predictions("val")
        console.print(evaluation_table(evaluate_scores(test, val, source=f"{the_run.method.name} on {the_run.data.name}", fitted_on="val")))
        console.print(f"Run: {stored.path}", soft_wrap=True)
    return 0


def _resumed(argv: list[str]) -> tuple["Run", Options]:
    @dataclass(frozen=True)
    class Resume:
        """Continue an interrupted run."""

        resume: Path
        """Its directory."""
        data_root: Path | None = None
        """Folder of the data sets that live on disk."""
        accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
        """Kind of device."""
        devices: int = 1
        """How many of them."""
        json: bool = False
        """Print the result as one JSON object on standard output, and nothing else there."""

    given = parse(Resume, argv, prog="rankmixup train")

    from rankmixup.runs import StoredRun

    stored = StoredRun.open(given.resume)
    options = Options(
        runs=stored.path.parent, data_root=given.data_root, accelerator=given.accelerator, devices=given.devices, json=given.json
    )
    require(
        stored.path.name == stored.run.id, f"{stored.path} must be named {stored.run.id}, the id of the run that its run.json describes"
    )
    return stored.run, options


def _requested(argv: list[str]) -> tuple["Run", Options]:
    from rankmixup.data import DataSource
    from rankmixup.methods import Method
    from rankmixup.runs import RECIPES, Optimisation, Run

    key, *rest = argv
    require(not key.startswith("-"), f"METHOD must come first, as in 'rankmixup train rankmixup-mndcg {key} ...', got {key!r}")
    mixer_name, rest = _take(rest, "--mixer")
    data_name, rest = _take(rest, "--data")
    method = _with_mixer(Method.registry[key](), mixer_name)
    data = DataSource.registry[data_name or "digits"]()
    chosen_method, chosen_data, options = _parse(method, data, rest)
    recipe = RECIPES.get(chosen_data.name, Optimisation())
    changes = {name: getattr(options, name) for name in _RECIPE_FIELDS if getattr(options, name) is not None}
    optimisation = dataclasses.replace(recipe, **changes)
    the_run = Run(chosen_method, chosen_data, options.model, optimisation, options.seed, options.selection)
    require(options.devices >= 1, f"devices must be at least 1, got {options.devices}")
    return the_run, options


def _parse(method: "Method", data: "DataSource", argv: list[str]) -> tuple["Method", "DataSource", Options]:
    """Flags for every field of these very classes, with these objects as defaults."""
    parts: list[tuple[str, Any, Any]] = [("options", Annotated[Options, tyro.conf.arg(name="")], Options())]
    # Without fields there is nothing to parse, and tyro would offer an empty group.
    if dataclasses.fields(method):
        parts.append(("method", Annotated[type(method), tyro.conf.arg(name="")], method))
    if dataclasses.fields(data):
        parts.append(("data", type(data), data))
    command = dataclasses.make_dataclass("Train", [(name, kind, dataclasses.field(default=default)) for name, kind, default in parts])
    summary = inspect.getdoc(method) or ""
    parsed: Any = parse(command, argv, prog=f"rankmixup train {method.name}", description=f"{summary}\n\n{_DESCRIPTION}")
    return getattr(parsed, "method", method), getattr(parsed, "data", data), parsed.options


def _with_mixer(method: "Method", name: str | None) -> "Method":
    """The method with another mixer at that mixer's own defaults, but for how forwards are joined, which is the method's affair."""
    from rankmixup.mixers import InputMixer, Mixer

    if name is None:
        return method
    current = getattr(method, "mixer", None)
    if current is None:
        raise InvalidInput(f"--mixer must go with a method that mixes, which {method.name!r} does not")
    kind = Mixer.registry[name]
    if kind is type(current):
        return method
    mixer = kind(lam_mode=current.lam_mode)
    if isinstance(mixer, InputMixer) and isinstance(current, InputMixer):
        mixer = dataclasses.replace(mixer, forward=current.forward)
    return dataclasses.replace(method, mixer=mixer)  # type: ignore[call-arg]


def _take(argv: list[str], flag: str) -> tuple[str | None, list[str]]:
    """The value of `flag NAME` or `flag=NAME`, and the arguments without it."""
    value, rest, arguments = None, [], iter(argv)
    for argument in arguments:
        if argument == flag:
            value = next(arguments, None)
            require(value is not None, f"{flag} must be followed by a name, got nothing")
        elif argument.startswith(f"{flag}="):
            value = argument.partition("=")[2]
        else:
            rest.append(argument)
    return value, rest
