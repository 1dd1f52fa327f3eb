"""rankmixup list."""

import json
from dataclasses import dataclass
from typing import Any, Literal

import tyro

from rankmixup.cli.output import console
from rankmixup.cli.parsing import parse


@dataclass
class List:
    """Names that the other commands take, with one line about each."""

    kind: tyro.conf.Positional[Literal["methods", "mixers", "models", "data", "metrics", "calibrators", "experiments"]]
    """What to list."""
    json: bool = False
    """Print one JSON object on standard output, and nothing else there."""


def run(argv: list[str]) -> int:
    """Parse and run."""
    options = parse(List, argv, prog="rankmixup list")

    from rankmixup.data import DataSource
    from rankmixup.evaluation import METRICS
    from rankmixup.methods import Method
    from rankmixup.mixers import Mixer
    from rankmixup.models import MODELS
    from rankmixup.posthoc import CALIBRATORS
    from rankmixup.registry import Registry
    from rankmixup.reports.tables import listing

    registries: dict[str, Registry[Any]] = {
        "methods": Method.registry,
        "mixers": Mixer.registry,
        "models": MODELS,
        "data": DataSource.registry,
        "metrics": METRICS,
        "calibrators": CALIBRATORS,
    }
    if options.kind == "experiments":
        from rankmixup.paper import EXPERIMENTS

        summaries = {key: experiment.title for key, experiment in EXPERIMENTS.items()}
    else:
        summaries = registries[options.kind].summaries()
    if options.json:
        print(json.dumps({options.kind: [{"name": name, "summary": summary} for name, summary in summaries.items()]}))
    else:
        console().print(listing(options.kind, summaries))
    return 0
