"""rankmixup sweep."""

import itertools
from dataclasses import dataclass, fields
from typing import get_args, get_origin, get_type_hints

from rankmixup.cli.output import answer
from rankmixup.cli.parsing import parse
from rankmixup.cli.train_command import Options, requested_run
from rankmixup.cli.work import WorkOptions, print_estimate, raise_failures
from rankmixup.errors import InvalidInput, require, require_whole
from rankmixup.hardware import Hardware

_DESCRIPTION = """Train methods with every combination of the given values, rank the combinations on validation data, and test the best.

One METHOD or several are followed by options of `rankmixup train METHOD`; options with several values form the grid, as in
`rankmixup sweep rankmixup-mrl --margin 1 2 3 --mixer.alpha 1 2 --seeds 3`. Options whose value is a list, such as --milestones, are
the same for all runs. Several methods, as in `rankmixup sweep ce mixup --lr 0.05 0.1`, take the options that all of them have. Each run
uses one device. Only the best combination is evaluated on test samples; `rankmixup compare` compares the runs of several there."""

AS_GIVEN = "as given"


@dataclass(frozen=True, kw_only=True)
class Sweep(WorkOptions):
    """Options besides those of `rankmixup train`."""

    seeds: int = 3
    """Use seeds 0..N-1 for each combination."""
    metric: str = "nll"
    """Rank by the mean of this metric over the seeds, on validation data: a name from `rankmixup list metrics`."""


def run(argv: list[str]) -> None:
    """Parse and run."""
    if not argv or argv[0] in ("-h", "--help"):
        parse(Sweep, ["--help"], prog="rankmixup sweep METHOD", description=_DESCRIPTION)
    keys = list(itertools.takewhile(lambda argument: not argument.startswith("-"), argv))
    require(len(keys) > 0, f"METHOD must come first, as in 'rankmixup sweep rankmixup-mrl {argv[0]} ...', got {argv[0]!r}")
    own, grid = _divided(argv[len(keys) :])
    options = parse(Sweep, own, prog="rankmixup sweep METHOD", description=_DESCRIPTION)
    options.check()
    require_whole("seeds", options.seeds, least=1)

    from rankmixup.evaluation.registry import METRICS
    from rankmixup.experiments import Task
    from rankmixup.experiments.sweep import rank
    from rankmixup.methods import Method
    from rankmixup.reports.tables import sweep_table

    METRICS[options.metric]  # refused here, before any run is trained, if it is unknown
    methods = {Method.registry[key].name: key for key in keys}
    require(len(methods) == len(keys), f"a sweep must be given each method once, got {', '.join(keys)}")
    head = {"methods": list(methods)} if len(methods) > 1 else {"method": next(iter(methods))}
    planned = {
        f"{method}{'' if name == AS_GIVEN else f' {name}'}" if len(methods) > 1 else name: [
            requested_run([key, *arguments, "--seed", str(seed)])[0] for seed in range(options.seeds)
        ]
        for method, key in methods.items()
        for name, arguments in _combinations(grid, _sequences(key)).items()
    }
    tasks = [Task(run) for seeds in zip(*planned.values(), strict=True) for run in dict.fromkeys(seeds)]
    if options.dry_run:
        import torch

        gpu = options.accelerator in ("auto", "cuda") and torch.cuda.is_available()
        print_estimate(tasks, options, "gpu" if gpu else "core", {**head, "settings": list(planned)})
        return

    failed = options.train_tasks(tasks)
    lost = {event.task.run for event in failed}
    ranking = rank({name: runs for name, runs in planned.items() if not lost.intersection(runs)}, options.runs, options.metric)
    if options.json or ranking.val:
        answer(options.json, lambda: {**head, "metric": options.metric, **ranking.to_dict()}, lambda: sweep_table(ranking))
    raise_failures(failed, len(tasks))


def _divided(argv: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """The sweep's own options unchanged, and the options of training with their values."""
    mine = {f"--{field.name.replace('_', '-')}" for field in fields(Sweep)}
    mine |= {flag.replace("--", "--no-", 1) for flag in mine}
    own, grid, current = [], {}, None
    for argument in argv:
        flag, equals, value = argument.partition("=")
        if flag.replace("_", "-") in mine or argument in ("-h", "--help"):
            own.append(argument)
            current = own
        elif argument.startswith("--"):
            require(flag not in grid, f"{flag} must be given once, followed by all its values, got it twice")
            current = grid[flag] = [value] if equals else []
        else:
            if current is None:
                raise InvalidInput(f"values must follow the option they are for, got {argument!r}")
            current.append(argument)
    require("--seed" not in grid, "a sweep must be given --seeds N, got --seed")
    refused = {f"--{field.name.replace('_', '-')}" for field in (*fields(Options), *fields(Hardware))} - {
        "--model",
        "--recipe",
        "--selection",
        "--tune-on",
    }
    require(refused.isdisjoint(grid), f"{', '.join(flag for flag in grid if flag in refused)} must be left out of a sweep")
    return own, grid


def _sequences(method: str) -> set[str]:
    """Options of training whose value is a list."""
    from rankmixup.data import DataSource
    from rankmixup.methods import Method
    from rankmixup.mixers import Mixer
    from rankmixup.runs import Optimisation

    owners: dict[str, list[type]] = {
        "": [Options, Optimisation, Method.registry[method]],
        "mixer.": [Mixer.registry[name] for name in Mixer.registry],
        "data.": [DataSource.registry[name] for name in DataSource.registry],
    }
    return {
        f"--{prefix}{name}".replace("_", "-")
        for prefix, kinds in owners.items()
        for kind in kinds
        for name, hint in get_type_hints(kind).items()
        if name in {field.name for field in fields(kind)} and any(get_origin(part) is tuple for part in (hint, *get_args(hint)))
    }


def _combinations(grid: dict[str, list[str]], sequences: set[str]) -> dict[str, list[str]]:
    """The arguments of each combination, by the values that distinguish it."""
    axes = {flag: values for flag, values in grid.items() if len(values) > 1 and flag.replace("_", "-") not in sequences}
    fixed = [argument for flag, values in grid.items() if flag not in axes for argument in (flag, *values)]
    found = {}
    for values in itertools.product(*axes.values()):
        varied = list(zip(axes, values, strict=True))
        name = " ".join(f"{flag.removeprefix('--')}={value}" for flag, value in varied) or AS_GIVEN
        found[name] = fixed + [argument for pair in varied for argument in pair]
    return found
