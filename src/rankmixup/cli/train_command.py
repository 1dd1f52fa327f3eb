"""rankmixup train.

Two stages, so that every field of a method, its mixer, its data set and the optimisation is a flag: first the names that choose
classes (`METHOD`, `--mixer NAME`, `--data NAME`) are taken out of the arguments, then tyro parses the rest against those classes,
with the recipe of the data set as defaults.
"""

import dataclasses
import inspect
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from rankmixup.cli.output import answer, console
from rankmixup.cli.parsing import parse, take_flag
from rankmixup.cli.work import Training
from rankmixup.errors import InvalidInput, one_line, require
from rankmixup.hardware import Hardware

if TYPE_CHECKING:
    from rankmixup.data import DataSource
    from rankmixup.methods import Method
    from rankmixup.runs import Optimisation, Run, Weights

_OF_RUN = ("model", "seed", "selection", "tune_on", "preprocess", "freeze")
"""Options that are fields of the run."""


@dataclass(frozen=True, kw_only=True)
class Options(Training):
    """Options of every method."""

    model: str | None = None
    """Network: a name from `rankmixup list models`, torchvision/NAME or timm/NAME; by default resnet8, for a table mlp."""
    seed: int = 0
    """Seed of every random stream of the run."""
    selection: Annotated[
        Literal["accuracy", "nll", "last"] | None, tyro.conf.arg(metavar="{accuracy,nll,last}", help_behavior_hint="(default: accuracy)")
    ] = None
    """Which epoch is kept: best validation accuracy (the paper), lowest validation NLL, the default if an option is auto, or the last."""
    tune_on: float = 1.0
    """Share of the validation samples on which options set to auto are tuned; below 1, temperatures are fitted on the others."""
    pretrained: bool = False
    """Start from the weights that torchvision or timm has for this network; they are downloaded unless they are in its cache."""
    weights: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: none)")] = None
    """Start from the weights in a .safetensors, .pt or .pth file; a head of another number of classes starts at random."""
    init_from: Annotated[Path | None, tyro.conf.arg(metavar="RUN", help_behavior_hint="(default: none)")] = None
    """Start from the selected epoch of a finished run with the same network."""
    preprocess: Literal["weights", "data"] = "weights"
    """Whose normalisation and size the input has: those of the weights (--pretrained, --init-from), or the data set's."""
    freeze: bool = False
    """Train only the head, the last linear layer; the rest of the network stays as it is."""
    recipe: Literal["data", "finetune", "short"] = "data"
    """Where values of the optimisation come from that no flag sets: the recipe of the data set (200 epochs for data of your own), one for
    trained networks (10 epochs), or one for up to a few thousand samples (30 epochs)."""
    hardware: Annotated[Hardware, tyro.conf.arg(name="")] = Hardware()
    """What it is trained on."""
    show: bool = False
    """Show the run and where each of its values comes from, and train nothing; what training would refuse is refused."""


_DESCRIPTION = """Train a network with a method.

METHOD is a name from `rankmixup list methods`; `rankmixup train METHOD --help` shows its own options too, and those of the
optimisation (--epochs, --batch-size, --lr, ...). --mixer NAME and --data NAME choose a mixer and a data set (`rankmixup list
mixers`, `rankmixup list data`; folder:PATH and npz:PATH for your own), whose fields are then --mixer.FIELD and --data.FIELD;
--imbalance is short for --data.imbalance. Values that no flag sets come from the recipe of the data set, or with
--recipe finetune or --recipe short from another one; --show lists them. A line in the first epoch says how long training
takes. An interrupted run continues with the same command, or with
`rankmixup train --resume RUN`, on any devices; a finished one is not trained again."""


def run(argv: list[str]) -> None:
    """Parse and run."""
    require(len(argv) > 0, "METHOD must be given, a name from 'rankmixup list methods', got nothing")
    if argv[0] in ("-h", "--help"):
        parse(Options, ["--help"], prog="rankmixup train METHOD", description=_DESCRIPTION)
    if argv[0] == "--resume" or argv[0].startswith("--resume="):
        the_run, options = _resumed(argv)
    else:
        the_run, options = requested_run(argv)
    if options.show:
        from rankmixup.training import check_run

        check_run(the_run, options.data_root)
        _show(the_run, argv[1:], options)
        return

    from rankmixup.evaluation import evaluate_scores
    from rankmixup.reports.tables import evaluation_table
    from rankmixup.training import ProgressWatcher, is_first_process, train_at

    stored = train_at(options.workplace(options.hardware), the_run, ProgressWatcher())
    if is_first_process() and options.json:
        print(json.dumps(stored.result().content, allow_nan=False))
    elif is_first_process():
        test, val = stored.scores("test"), stored.scores("val")
        title = f"{the_run.method.name} on {the_run.data.name}"
        console().print(evaluation_table(evaluate_scores(test, val, source=title, fitted_on="val", protocol=the_run.data.protocol)))
        console().print(f"Run: {one_line(str(stored.path))}", soft_wrap=True)


def _resumed(argv: list[str]) -> tuple["Run", Options]:
    """The run of a directory; flags may repeat its values and find its data elsewhere, but change nothing."""
    from rankmixup.data import parse_source
    from rankmixup.runs import StoredRun

    paths, rest = take_flag(argv, "--resume")
    stored = StoredRun.open(Path(paths[-1]))
    run = stored.run
    require(stored.path.name == run.id, f"{stored.path} must be named {run.id}, the id of the run that its run.json describes")
    mixer_name, data_name, rest = _take_names(rest)
    options = Options(runs=stored.path.parent, **{name: getattr(run, name) for name in _OF_RUN})
    data = run.data if data_name is None else parse_source(data_name)
    asked, options = _parse(_with_mixer(run.method, mixer_name), data, run.optimisation, options, rest, run.weights)
    require(options.runs == stored.path.parent, f"runs must be left out with --resume, got {options.runs}")
    if asked != run:
        stored.refuse_changes(asked)
    return asked, options


def requested_run(argv: list[str]) -> tuple["Run", Options]:
    """The run that METHOD and its flags describe, and the flags that are no part of it."""
    from rankmixup.data import parse_source
    from rankmixup.runs.recipes import optimisation_recipe, recipe_for

    key, *rest = argv
    require(not key.startswith("-"), f"METHOD must come first, as in 'rankmixup train rankmixup-mndcg {key} ...', got {key!r}")
    mixer_name, data_name, rest = _take_names(rest)
    # Left among the arguments, where any other value is refused.
    named = take_flag(rest, "--recipe")[0][-1:]
    recipe: Any = named[0] if named in (["finetune"], ["short"]) else "data"

    def parsed(data: "DataSource") -> tuple["Run", Options]:
        optimisation = optimisation_recipe(data, recipe).build_optimisation()
        return _parse(_with_mixer(recipe_for(data).build_method(key), mixer_name), data, optimisation, Options(), rest)

    data = parse_source(data_name or "digits")
    asked, options = parsed(data)
    # The flags of a data set may select another recipe (a long tail has one of its own), which has other defaults.
    return (asked, options) if recipe_for(asked.data) is recipe_for(data) else parsed(asked.data)


def _parse(
    method: "Method",
    data: "DataSource",
    optimisation: "Optimisation",
    options: Options,
    argv: list[str],
    weights: "Weights | None" = None,
) -> tuple["Run", Options]:
    """The run and the options from flags for every field of these classes, with these objects as defaults."""
    from rankmixup.runs import Run

    parts: dict[str, Any] = {"options": options, "optimisation": optimisation, "method": method, "data": data}
    fields = [
        (name, type(part) if name == "data" else Annotated[type(part), tyro.conf.arg(name="")], dataclasses.field(default=part))
        for name, part in parts.items()
        # Without fields there is nothing to parse, and tyro would offer an empty group.
        if dataclasses.fields(part)
    ]
    description = f"{inspect.getdoc(method) or ''}\n\n{_DESCRIPTION}"
    command = dataclasses.make_dataclass("Train", fields)
    flags = [re.sub("^--imbalance(?==|$)", "--data.imbalance", argument) for argument in argv]
    parts |= vars(parse(command, flags, prog=f"rankmixup train {method.name}", description=description))
    options = parts["options"]
    named = {name: getattr(options, name) for name in (*_OF_RUN, "pretrained", "init_from")}
    # A run that is resumed has its weights, unless flags repeat them.
    named["weights"] = options.weights or (None if options.pretrained or options.init_from else weights)
    return Run(parts["method"], parts["data"], optimisation=parts["optimisation"], **named), options


def _show(run: "Run", argv: list[str], options: Options) -> None:
    from rankmixup.config import flatten
    from rankmixup.reports.recipes import run_table
    from rankmixup.runs import sources

    flags = {argument.partition("=")[0].replace("_", "-").replace("--no-", "--").replace(".no-", ".") for argument in argv}
    short = {"method.mixer.name": "mixer", "data.name": "data", "data.imbalance": "imbalance"}
    names = {path: path.removeprefix("method.").removeprefix("optimisation.").replace("_", "-") for path in flatten(run.to_dict())}
    given = [path for path, name in names.items() if flags & {f"--{name}", f"--{short.get(path, name)}"}]
    found = sources(run, given, options.recipe)
    answer(options.json, lambda: {"id": run.id, "run": run.to_dict(), "sources": found}, lambda: run_table(run, found))


def _with_mixer(method: "Method", name: str | None) -> "Method":
    """The method with another mixer at that mixer's own defaults, except for `forward` and `lam_mode`, which stay the method's."""
    from rankmixup.mixers import InputMixer, Mixer

    if name is None:
        return method
    current = getattr(method, "mixer", None)
    if current is None:
        raise InvalidInput(f"--mixer must go with a method that mixes, which {method.name!r} does not")
    if Mixer.registry[name] is type(current):
        return method
    mixer = Mixer.registry[name](lam_mode=current.lam_mode)
    if isinstance(mixer, InputMixer) and isinstance(current, InputMixer):
        mixer = dataclasses.replace(mixer, forward=current.forward)
    return dataclasses.replace(method, mixer=mixer)  # type: ignore[call-arg]


def _take_names(argv: list[str]) -> tuple[str | None, str | None, list[str]]:
    """The last --mixer, the last --data, None if they are not given, and the arguments without them."""
    mixers, rest = take_flag(argv, "--mixer")
    data, rest = take_flag(rest, "--data")
    return mixers[-1] if mixers else None, data[-1] if data else None, rest
