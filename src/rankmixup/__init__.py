"""rankmixup: train classifiers whose confidence can be trusted, and prove it.

Public names resolve on first use, so that `import rankmixup` itself imports nothing heavy.
"""

import fnmatch
import importlib
import operator
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from rankmixup import data, deploy, errors, evaluation, functional, methods, metrics, mixers, models, posthoc, runs, training, types
    from rankmixup.deploy import CalibratedModel, load
    from rankmixup.evaluation import compare, evaluate
    from rankmixup.methods import Objective, TrainStep, objective
    from rankmixup.models import build_model
    from rankmixup.posthoc import TemperatureScaling
    from rankmixup.runs import Optimisation, Run, StoredRun
    from rankmixup.training.shift import shift
    from rankmixup.training.train import train

_HOME = {"TemperatureScaling": "posthoc", "build_model": "models", "compare": "evaluation", "evaluate": "evaluation"}
_HOME |= dict.fromkeys(("shift", "train"), "training")
_HOME |= dict.fromkeys(("CalibratedModel", "load"), "deploy")
_HOME |= dict.fromkeys(("Objective", "TrainStep", "objective"), "methods") | dict.fromkeys(("Optimisation", "Run", "StoredRun"), "runs")

__all__ = ["CalibratedModel", "Objective", "Optimisation", "Run", "StoredRun", "TemperatureScaling", "TrainStep", "__version__"]
__all__ += ["build_model", "compare", "evaluate", "load", "objective", "shift", "train"]
__all__ += ["list_calibrators", "list_corruptions", "list_data", "list_methods", "list_metrics", "list_mixers", "list_models"]
__all__ += [
    "data",
    "deploy",
    "errors",
    "evaluation",
    "functional",
    "methods",
    "metrics",
    "mixers",
    "models",
    "posthoc",
    "runs",
    "training",
    "types",
]


def list_methods(pattern: str = "*") -> list[str]:
    """Names of the training-time methods, all or those that match a pattern such as `"rankmixup-*"`."""
    return _names("methods", "Method.registry", pattern)


def list_mixers(pattern: str = "*") -> list[str]:
    """Names of the mixers, all or those that match a pattern."""
    return _names("mixers", "Mixer.registry", pattern)


def list_models(pattern: str = "*") -> list[str]:
    """Names of the networks, all or those that match a pattern; torchvision/NAME and timm/NAME are not listed."""
    return _names("models", "MODELS", pattern)


def list_data(pattern: str = "*") -> list[str]:
    """Names of the data sets, all or those that match a pattern."""
    return _names("data", "DataSource.registry", pattern)


def list_corruptions(pattern: str = "*") -> list[str]:
    """Names of the corruptions of images that `rm.shift` can generate, all or those that match a pattern such as `"*_noise"`."""
    return _names("data", "CORRUPTIONS", pattern)


def list_metrics(pattern: str = "*") -> list[str]:
    """Keys of the metrics of an evaluation, all or those that match a pattern such as `"*ece"`."""
    return _names("evaluation", "METRICS", pattern)


def list_calibrators(pattern: str = "*") -> list[str]:
    """Names of the calibrators, all or those that match a pattern."""
    return _names("posthoc", "CALIBRATORS", pattern)


def _names(module: str, registry: str, pattern: str) -> list[str]:
    return fnmatch.filter(operator.attrgetter(registry)(importlib.import_module(f"rankmixup.{module}")), pattern)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"rankmixup.{_HOME[name]}"), name)
    if name in __all__:
        return importlib.import_module(f"rankmixup.{name}")
    raise AttributeError(f"module 'rankmixup' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
