"""rankmixup compare."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from rankmixup.cli.options import Calibration, Each, Json, Source
from rankmixup.cli.output import answer
from rankmixup.cli.outputs import Conditions, Outputs
from rankmixup.errors import one_line, require

NamedSources = Annotated[tuple[str, ...], tyro.conf.arg(metavar="[NAME=]RUN|FILE ...", help_behavior_hint="(required)")]
OWN = "own"


@dataclass(kw_only=True)
class Compare(Outputs, Calibration):
    """Test whether models differ significantly on one test set.

    Takes run directories and files of scores, as `rankmixup evaluate` does, of the same samples in the same order. Differences are tested
    with a paired bootstrap, differences of accuracy with McNemar's test; p-values are corrected with Holm's method over all differences.
    Runs are called by their method and seed. Those that differ by their seed alone are one model, whose numbers are means over seeds;
    models with at least two seeds in common are compared over these, with Student's paired test.
    The exit status is 1 if a condition of --fail-if holds.
    """

    sources: tyro.conf.Positional[NamedSources]
    """Run directories or files of scores; NAME= gives a model, which may be one run of several seeds, a name for tables and --fail-if."""
    each: Each = False
    baseline: Annotated[str | None, tyro.conf.arg(metavar="NAME|RUN|FILE", help_behavior_hint="(optional)")] = None
    """The model that all others are compared with; by default the first."""
    metric: tyro.conf.UseAppendAction[
        Annotated[tuple[str, ...], tyro.conf.arg(metavar="METRIC", help_behavior_hint="(default: ece; repeatable)")]
    ] = ()
    """Metric to compare besides accuracy: a name from `rankmixup list metrics`, or all."""
    calibrate_on: Annotated[tuple[str, ...], tyro.conf.arg(metavar="PATH ...|own", help_behavior_hint="(optional)")] = ()
    """Compare the models after calibration: files of held-out scores, one for each model in the same order, or the word `own` for the
    validation scores of each run. Without it, runs too are compared as they are."""
    fail_if: Conditions = ()
    """A condition such as `b.ece - a.ece > 1%:low` or `b.ece > 3%`: models by name (of a file the end of its path, with or without suffix;
    in quotes if it holds spaces), metrics that are compared, < or >, a fraction or a percentage, and optionally :low or :high to compare
    that end of the interval; a difference has its paired interval."""
    json: Json = False

    def models(self) -> tuple[dict[str, Path], dict[str, dict[int, str]], str | None]:
        """Runs and files by name, the names of those that are one model by their seed, and the baseline, which may be an additional one."""
        from rankmixup.evaluation.comparison import compared_names
        from rankmixup.evaluation.names import find_model
        from rankmixup.runs.naming import model_names
        from rankmixup.runs.store import StoredRun

        arguments, baseline = list(self.sources), None
        if self.baseline is not None:
            name, path = _named(self.baseline)
            baseline = next((each for each, other in map(_named, arguments) if other == path), None)
            if baseline is None and (path.exists() or name != one_line(str(path))):
                arguments, baseline = [self.baseline, *arguments], name
        models: dict[str, Path] = {}
        for name, path in map(_named, arguments):
            require(path not in models.values(), f"compare must be given each run or file once, got {path} twice")
            require(name not in models, f"compare must give each model its own name (NAME=...), got {name!r} twice")
            models[name] = path
        require(len(models) >= 2, f"compare must be given at least two runs or files, got {len(models)}")
        unnamed = [name for name, path in models.items() if name == one_line(str(path)) and path.is_dir()]
        runs = {name: StoredRun.open(models[name]).run for name in unnamed}
        pools: dict[str, dict[int, str]] = {}
        for name, model in model_names(runs, each=self.each).items():
            require(model not in models, f"compare must give each model its own name (NAME=...), got {model!r} twice")
            pools.setdefault(model, {})[runs[name].seed] = name
        model_of = {name: model for model, members in pools.items() for name in members.values()}
        names = compared_names(models, pools)
        require(len(names) >= 2, f"compare must be given at least two models, got runs of {names[0]} alone; --each compares its runs")
        if self.baseline is not None and baseline is None:
            baseline = find_model(self.baseline, [*names, *models])
        return models, pools, model_of.get(baseline or "", baseline)

    def held_out(self, count: int) -> list[str | None]:
        """For each of `count` models what it is calibrated on."""
        chosen = self.calibrate_with != "temperature" or self.objective is not None
        require(bool(self.calibrate_on) or not chosen, "--calibrate-with and --objective must go with --calibrate-on, got none")
        given = self.calibrate_on * count if self.calibrate_on == (OWN,) else self.calibrate_on or (None,) * count
        require(len(given) == count, f"--calibrate-on must give one file for each of {count} models, or the word own, got {len(given)}")
        return list(given)

    def open_model(self, path: Path, held_out: str | None) -> Source:
        """A model and its held-out scores, if it is calibrated."""
        source = self.open(path, Path(held_out) if held_out not in (None, OWN) else None)
        own = source.stored is not None or held_out != OWN
        require(own, f"--calibrate-on own must go with runs, which have validation scores, {path} is a file")
        return source


def _named(argument: str) -> tuple[str, Path]:
    """Name and path of `PATH` or `NAME=PATH`; a path that exists is never taken apart."""
    name, separator, rest = argument.partition("=")
    if not separator or Path(argument).exists():
        return one_line(str(Path(argument))), Path(argument)
    require(bool(name.strip()) and bool(rest), f"compare must be given RUN or FILE, optionally with NAME= before it, got {argument!r}")
    return one_line(name.strip()), Path(rest)


def run(options: Compare) -> int:
    """Run the command."""
    named, pools, baseline = options.models()
    options.check(*named.values(), *options.calibrate_on)
    options.check_outputs(*named.values(), *options.calibrate_on)
    held_out = options.held_out(len(named))

    from rankmixup.evaluation.comparison import compare_scores, compared_keys, compared_names
    from rankmixup.evaluation.conditions import ComparisonCondition
    from rankmixup.reports.comparison import comparison_view

    metric = options.metric or ("ece",)
    keys = compared_keys(metric)
    for text in options.fail_if:
        ComparisonCondition.parse(text, compared_names(named, pools), keys)  # refused here, before any scores are read
    models = {name: options.open_model(path, each) for (name, path), each in zip(named.items(), held_out, strict=True)}
    chosen = ("calibrate_with", "objective", "fail_if", "num_bins", "replicates", "seed")
    comparison = compare_scores(
        {name: source.test for name, source in models.items()},
        {name: source.held_out for name, source in models.items() if source.held_out is not None} if options.calibrate_on else None,
        fitted_on={name: source.fitted_on for name, source in models.items()},
        pools=pools,
        baseline=baseline,
        metric=metric,
        **{name: getattr(options, name) for name in chosen},
    )
    options.write(comparison)
    answer(options.json, comparison.to_dict, lambda: comparison_view(comparison))
    return 1 if comparison.failed else 0
