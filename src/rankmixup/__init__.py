"""rankmixup: train classifiers whose confidence can be trusted, and prove it.

Public names resolve on first use, so that `import rankmixup` itself imports nothing heavy.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from rankmixup import data, errors, evaluation, functional, methods, metrics, mixers, models, posthoc, runs, training, types
    from rankmixup.evaluation import evaluate
    from rankmixup.methods import Objective, TrainStep, objective
    from rankmixup.models import build_model
    from rankmixup.runs import Optimisation, Run
    from rankmixup.training import train

_HOME = {
    "Objective": "methods",
    "Optimisation": "runs",
    "Run": "runs",
    "TrainStep": "methods",
    "build_model": "models",
    "evaluate": "evaluation",
    "objective": "methods",
    "train": "training",
}
_MODULES = ("data", "errors", "evaluation", "functional", "methods", "metrics", "mixers", "models", "posthoc", "runs", "training", "types")

__all__ = [
    "Objective",
    "Optimisation",
    "Run",
    "TrainStep",
    "__version__",
    "build_model",
    "data",
    "errors",
    "evaluate",
    "evaluation",
    "functional",
    "methods",
    "metrics",
    "mixers",
    "models",
    "objective",
    "posthoc",
    "runs",
    "train",
    "training",
    "types",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"rankmixup.{_HOME[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"rankmixup.{name}")
    raise AttributeError(f"module 'rankmixup' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
