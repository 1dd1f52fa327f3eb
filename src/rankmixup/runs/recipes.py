"""How each data set is trained unless the run says otherwise, with the source of every constant."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rankmixup.data import DataSource
from rankmixup.methods import Method
from rankmixup.runs.optimisation import Optimisation

__all__ = ["RECIPES", "Constant", "Recipe", "Source", "recipe_for", "with_field"]

Source = Literal["paper", "release", "MbLS", "CALS", "MiSLAS", "UniMix", "ours"]
"""The paper with its supplement, its authors' code, code or paper of others, or a choice of ours that docs/deviations.md explains."""


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
        values: dict[str, Any] = {name: constant.value for name, constant in self.optimisation.items()}
        return Optimisation(**values)

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


def _from(source: Source, **values: Any) -> dict[str, Constant]:
    """Constants of one source; a double underscore in a name stands for the dot."""
    return {name.replace("__", "."): Constant(value, source) for name, value in values.items()}


def _changed(methods: Mapping[str, Constants], changes: Mapping[str, Constants]) -> dict[str, Constants]:
    return {key: {**methods.get(key, {}), **changes.get(key, {})} for key in {**methods, **changes}}


def _as_ours(recipe: Recipe, **changes: Any) -> Recipe:
    """The recipe for a data set that it was not written for, which is our choice, with `changes` to its optimisation."""
    methods = {
        key: {name: dataclasses.replace(each, source="ours") for name, each in fields.items()} for key, fields in recipe.methods.items()
    }
    optimisation = {name: dataclasses.replace(each, source="ours") for name, each in recipe.optimisation.items()}
    return Recipe({**optimisation, **_from("ours", **changes)}, methods)


# The supplement's constants for the rivals, and what it is silent about from the release, the same on every data set of the paper.
_RIVALS: dict[str, Constants] = {
    "label-smoothing": _from("paper", smoothing=0.05),
    "focal": _from("paper", gamma=3.0),
    "ecp": _from("paper", weight=0.1),
    "mmce": _from("release", weight=1.0),
    "mbls": _from("paper", margin=6.0) | _from("release", weight=0.1),
    "cpc": _from("paper", discrimination=0.1, exclusion=1.0),
    "crl": _from("paper", weight=1.0),
    "mixup": _from("paper", mixer__alpha=0.2),
    "regmixup": _from("paper", mixer__alpha=10.0),
}

_CIFAR_OPTIMISATION = _from(
    "paper", epochs=200, batch_size=128, optimiser="sgd", lr=0.1, schedule="steps", decay=0.1, momentum=0.9
) | _from("release", milestones=(80, 120), warmup=0, weight_decay=5e-4, decay_vectors=True, clip=2.0)

_CIFAR10 = Recipe(
    _CIFAR_OPTIMISATION,
    _RIVALS
    | {
        "rankmixup-mrl": _from("paper", weight=0.1, margin=2.0) | _from("release", mixer__alpha=2.0, num_mixes=1),
        "rankmixup-mndcg": _from("paper", weight=0.1, mixer__alpha=2.0, num_mixes=3),
    },
)

_CIFAR100 = Recipe(
    _CIFAR_OPTIMISATION,
    _changed(
        _CIFAR10.methods,
        {
            "rankmixup-mrl": _from("ours", mixer__alpha=2.0),
            "rankmixup-mndcg": _from("ours", mixer__alpha=2.0) | _from("release", num_mixes=3),
        },
    ),
)

_TINY_IMAGENET = Recipe(
    _CIFAR_OPTIMISATION | _from("release", epochs=100, milestones=(40, 60)) | _from("MbLS", lr=0.1) | _from("ours", batch_size=32),
    _changed(
        _CIFAR10.methods,
        {
            "mbls": _from("paper", margin=10.0),
            "rankmixup-mrl": _from("paper", margin=1.0) | _from("release", mixer__alpha=1.0),
            "rankmixup-mndcg": _from("paper", mixer__alpha=1.0),
        },
    ),
)

_IMAGENET = Recipe(
    _from("CALS", epochs=200, batch_size=512, optimiser="adamw", lr=5e-4, schedule="cosine", milestones=(), final_lr=5e-6)
    | _from("CALS", warmup=1, warmup_lr=5e-7, weight_decay=0.05, decay_vectors=False, clip=2.0),
    _changed(
        _RIVALS,
        {
            "mbls": _from("ours", margin=10.0),
            "rankmixup-mrl": _from("paper", weight=0.1) | _from("ours", mixer__alpha=1.0, margin=1.0, num_mixes=1),
            "rankmixup-mndcg": _from("paper", weight=0.1) | _from("ours", mixer__alpha=1.0, num_mixes=3),
        },
    ),
)

_CIFAR10_LT = Recipe(
    _from("MiSLAS", epochs=200, batch_size=128, optimiser="sgd", lr=0.1, schedule="steps", milestones=(160, 180), decay=0.1)
    | _from("MiSLAS", warmup=5, warmup_lr=0.0, momentum=0.9, weight_decay=2e-4, decay_vectors=True, clip=0.0),
    _changed(
        _RIVALS,
        {
            "mixup": _from("MiSLAS", mixer__alpha=1.0),
            "unimix": _from("UniMix", mixer__alpha=0.8, tau=-0.5),
            "rankmixup-mrl": _from("paper", weight=0.1) | _from("ours", mixer__alpha=2.0, margin=2.0, num_mixes=1),
            "rankmixup-mndcg": _from("paper", weight=0.1) | _from("ours", mixer__alpha=2.0, num_mixes=3),
        },
    ),
)

_DEMONSTRATION = _as_ours(_CIFAR10, epochs=30, batch_size=64, milestones=(15, 22))
"""Long enough for cross-entropy to fit the training set, short enough for a demonstration."""

RECIPES: dict[str, Recipe] = {
    "cifar10": _CIFAR10,
    "cifar100": _CIFAR100,
    "tiny-imagenet": _TINY_IMAGENET,
    "imagenet": _IMAGENET,
    "cifar10, long-tailed": _CIFAR10_LT,
    "cifar100, long-tailed": Recipe(_CIFAR10_LT.optimisation, _changed(_CIFAR10_LT.methods, {"unimix": _from("UniMix", tau=-0.1)})),
    "digits": _DEMONSTRATION,
    "synthetic": _DEMONSTRATION,
    "other": _as_ours(_CIFAR10),
    "other, long-tailed": _as_ours(_CIFAR10_LT),
}
"""By name of the data set; "other" is every one that has none of its own."""

_SAME_LONG_TAILED = ("tiny-imagenet", "imagenet", "digits", "synthetic")
"""Data sets whose size asks for its own epochs and batches, whatever the distribution of classes."""


def recipe_for(data: DataSource) -> Recipe:
    """The recipe of a data set: its own, or that of its long-tailed version, or that of CIFAR where it has none."""
    name = data.name if data.name in RECIPES else "other"
    return RECIPES[f"{name}, long-tailed" if data.imbalance > 1 and name not in _SAME_LONG_TAILED else name]
