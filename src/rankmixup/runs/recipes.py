"""How each data set is trained unless the run says otherwise, with the source of every constant."""

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from rankmixup.config import flatten
from rankmixup.data import DataSource
from rankmixup.errors import require_choice
from rankmixup.methods import Method
from rankmixup.runs.optimisation import Optimisation

RecipeName = Literal["data", "finetune", "short"]
"""Where the optimisation comes from: the data set's recipe, that of fine-tuning, or that of digits, which is short."""
Source = Literal["paper", "release", "MbLS", "CALS", "MiSLAS", "UniMix", "ELECTRA", "BEiT", "ours"]
"""The paper with its supplement, its authors' code, code or paper of others, or our choice: docs/explanations/deviations.md."""


@dataclass(frozen=True)
class Constant:
    """A value and where it comes from."""

    value: float | int | str | bool | tuple[int, ...]
    source: Source


Constants = Mapping[str, Constant]
"""By dotted name of a field, such as `mixer.alpha`."""


@dataclass(frozen=True)
class Recipe:
    """Constants of one data set."""

    optimisation: Constants
    """Fields of `Optimisation`; one not named has no part in it."""
    methods: Mapping[str, Constants]
    """Fields of methods by registry key; those not named keep the method's default."""

    def build_optimisation(self) -> Optimisation:
        """The optimisation that it describes."""
        return Optimisation.with_fields({name: constant.value for name, constant in self.optimisation.items()})

    def build_method(self, key: str) -> Method:
        """The method of this name or alias with the constants of this recipe."""
        method = Method.registry[key]()
        for path, constant in self.methods.get(method.name, {}).items():
            method = with_field(method, path, constant.value)
        return method


def with_field(owner: Any, path: str, value: Any) -> Any:
    """The frozen dataclass `owner` with another value of the field that the dotted `path` leads to."""
    name, inner, rest = path.partition(".")
    return dataclasses.replace(owner, **{name: with_field(getattr(owner, name), rest, value) if inner else value})


def _read_recipes() -> dict[str, Recipe]:
    """The recipes of recipes.toml, each with the constants of those that it extends or adapts."""
    described = tomllib.loads((Path(__file__).parent / "recipes.toml").read_text(encoding="utf-8"))
    found: dict[str, Recipe] = {}
    for name, own in described.items():
        basis = found.get(own.get("extends") or own.get("adapts"), Recipe({}, {}))
        optimisation, methods = dict(basis.optimisation), {key: dict(fields) for key, fields in basis.methods.items()}
        if "adapts" in own:
            for constants in (optimisation, *methods.values()):
                constants.update({field: dataclasses.replace(constant, source="ours") for field, constant in constants.items()})
        optimisation |= _constants(own.get("optimisation", {}))
        for key, fields in own.get("methods", {}).items():
            methods[key] = methods.get(key, {}) | _constants(fields)
        found[name] = Recipe(optimisation, methods)
    del found["baselines"]
    return found


def _constants(by_source: Mapping[Source, Any]) -> dict[str, Constant]:
    return {
        field: Constant(tuple(value) if isinstance(value, list) else value, source)
        for source, values in by_source.items()
        for field, value in flatten(values).items()
    }


RECIPES = _read_recipes()
"""By name of the data set; "other" is every one that has none of its own, and "finetune" is for trained networks on any data set."""

_SAME_LONG_TAILED = ("tiny-imagenet", "imagenet", "digits", "synthetic")
"""Data sets whose size asks for its own epochs and batches, whatever the distribution of classes."""


def recipe_for(data: DataSource) -> Recipe:
    """The recipe of a data set: its own, or that of its long-tailed version, or that of CIFAR where it has none."""
    name = data.name if data.name in RECIPES and data.name != "finetune" else "other"
    return RECIPES[f"{name}, long-tailed" if data.imbalance > 1 and name not in _SAME_LONG_TAILED else name]


def optimisation_recipe(data: DataSource, recipe: RecipeName) -> Recipe:
    """The recipe that the optimisation is taken from."""
    require_choice("recipe", recipe, get_args(RecipeName))
    return {"data": recipe_for(data), "finetune": RECIPES["finetune"], "short": RECIPES["digits"]}[recipe]
