"""What runs are called among others: by their method and seed, never by their id."""

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import PurePath
from typing import TypeVar

from rankmixup.config import flatten
from rankmixup.runs.run import Run

Place = TypeVar("Place", bound=Hashable)
_HASH = re.compile(r"[0-9a-f]{12,}")


def model_names(runs: Mapping[Place, Run], *, each: bool = False) -> dict[Place, str]:
    """What the model of each run is called: runs that differ in their seed alone are one model, with `each` every run is one.

    A model of one run is called `method, seed n`, one of several by its method. Where that could mean another, the settings in which the
    models of that method differ are added. Identical runs, which nothing can tell from each other, have no name.

    >>> runs = [Run("ce"), Run("ce", seed=1), Run("mbls", seed=1)]
    >>> model_names(dict(enumerate(runs)))
    {0: 'ce', 1: 'ce', 2: 'mbls, seed 1'}
    >>> model_names(dict(enumerate(runs)), each=True)
    {0: 'ce, seed 0', 1: 'ce, seed 1', 2: 'mbls, seed 1'}
    """
    copies = Counter(run.id for run in runs.values())
    pools: dict[tuple[str, int | None], list[Place]] = {}
    for place, run in runs.items():
        if copies[run.id] == 1:
            pools.setdefault((replace(run, seed=0).id, run.seed if each else None), []).append(place)
    of_method: dict[str, list[list[Place]]] = {}
    for places in pools.values():
        of_method.setdefault(runs[places[0]].method.name, []).append(places)
    named: dict[str, list[list[Place]]] = {}
    for group in of_method.values():
        seeds = [runs[place].seed for places in group for place in places]
        unique = len(group) == 1 or len(seeds) == len(group) == len(set(seeds))
        for places, apart in zip(group, settings_apart([runs[places[0]] for places in group]), strict=True):
            named.setdefault(_name(runs, places, "" if unique else f" ({apart})"), []).append(places)
    return {place: name for name, group in named.items() if len(group) == 1 for place in group[0]}


def _name(runs: Mapping[Place, Run], places: Sequence[Place], settings: str = "") -> str:
    run = runs[places[0]]
    return f"{run.method.name}{settings}" + (f", seed {run.seed}" if len(places) == 1 else "")


def settings_apart(runs: Sequence[Run]) -> list[str]:
    """For each run as few of its settings as tell all apart, such as `lr=0.1, margin=2.0`; hashes, which nobody can read, are none."""
    facts = [{_short(key): _said(key, value) for key, value in flatten(run.to_dict()).items() if key != "seed"} for run in runs]
    chosen: list[str] = []
    for key in dict.fromkeys(chain(*facts)):
        kinds, finer = ({tuple(map(each.get, keys)) for each in facts} for keys in (chosen, [*chosen, key]))
        if len(finer) > len(kinds) and not any(_HASH.fullmatch(each.get(key, "")) for each in facts):
            chosen.append(key)
    return [", ".join(f"{key}={each[key]}" for key in chosen if key in each) for each in facts]


def _short(key: str) -> str:
    return key.removeprefix("method.").removeprefix("optimisation.").removesuffix(".name")


def _said(key: str, value: object) -> str:
    # Of a path its end, and no slash: names of models are cut there as those of files are.
    return PurePath(str(value)).name if key.endswith(".path") else str(value).replace("/", ":")
