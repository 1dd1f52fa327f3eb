"""rankmixup list."""

from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from typing import Literal

import tyro

from rankmixup.cli.options import Json
from rankmixup.cli.output import answer
from rankmixup.cli.reproduce_command import OURS

_REGISTRIES = {
    "methods": ("methods", "Method.registry"),
    "mixers": ("mixers", "Mixer.registry"),
    "models": ("models", "MODELS"),
    "data": ("data", "DataSource.registry"),
    "corruptions": ("data", "CORRUPTIONS"),
    "metrics": ("evaluation", "METRICS"),
    "calibrators": ("posthoc", "CALIBRATORS"),
    "experiments": ("paper", "EXPERIMENTS"),
}
"""Where the names of each kind are registered: a package, and an attribute of it."""


@dataclass
class List:
    """List the names that other commands accept, with a short description of each."""

    kind: tyro.conf.Positional[Literal["methods", "mixers", "models", "data", "corruptions", "metrics", "calibrators", "experiments"]]
    """What to list."""
    json: Json = False


def run(options: List) -> None:
    """Run the command."""
    from rankmixup.reports.tables import listing

    package, attribute = _REGISTRIES[options.kind]
    registry = attrgetter(attribute)(import_module(f"rankmixup.{package}"))
    experiments = options.kind == "experiments"
    found = {key: each.title for key, each in registry.items()} | OURS if experiments else registry.summaries()
    answer(
        options.json,
        lambda: {options.kind: [{"name": name, "summary": summary} for name, summary in found.items()]},
        lambda: listing(options.kind, found),
    )
