"""What the files of a run directory hold, checked once, when they are read. Unknown keys are left alone: later versions may add some."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from rankmixup.data import View
from rankmixup.errors import require
from rankmixup.runs.json_object import JsonObject, is_number

Metrics = Mapping[str, Any]
"""Numbers as `all_metrics` gives them, or None; accuracy, nll, ece, oe and ue are always numbers."""
_ALWAYS = ("accuracy", "nll", "ece", "oe", "ue")


class Selected(NamedTuple):
    """The epoch whose weights were kept."""

    rule: str
    epoch: int


class Temperature(NamedTuple):
    """A temperature fitted on validation, and metrics of the test split after it."""

    value: float
    test: Metrics


class SplitRecord(NamedTuple):
    """How many samples a split has, and the hash of the list of them."""

    size: int
    sha256: str


@dataclass(frozen=True)
class RunResult:
    """result.json."""

    id: str
    selection: Selected
    metrics: Mapping[str, Metrics]
    """Of `val` and `test`."""
    temperature: Mapping[str, Temperature]
    """By objective."""
    seconds: float
    """What training took."""
    content: Mapping[str, Any]
    """The whole file as it stands."""

    @classmethod
    def from_dict(cls, data: Any, name: str) -> "RunResult":
        """From JSON; `name` is what errors call it."""
        read = JsonObject(data, name)
        selection, metrics, temperature = (read.child(key) for key in ("selection", "metrics", "temperature"))
        fits = {objective: temperature.child(objective) for objective in temperature.values}
        return cls(
            read.string("id"),
            Selected(selection.string("rule"), selection.integer("epoch", least=1)),
            {split: _metrics(metrics, split) for split in ("val", "test")},
            {objective: Temperature(fit.number("value"), _metrics(fit, "test")) for objective, fit in fits.items()},
            read.number("seconds"),
            read.values,
        )


@dataclass(frozen=True)
class EpochRecord:
    """One line of log.jsonl."""

    epoch: int
    train: Mapping[str, float | None]
    """Mean loss of the epoch, and of each of its terms."""
    val: Metrics
    ranking: Mapping[str, float | None]
    """See `ranking_diagnostics`."""
    lr: float
    seconds: float
    """Of training, up to this epoch."""
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, data: Any, name: str) -> "EpochRecord":
        """From JSON; `name` is what errors call it."""
        read = JsonObject(data, name, {"ranking": {}, "warnings": []})
        return cls(
            read.integer("epoch", least=1),
            read.numbers("train"),
            _metrics(read, "val"),
            read.numbers("ranking"),
            read.number("lr"),
            read.number("seconds"),
            read.strings("warnings"),
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {**dataclasses.asdict(self), "warnings": list(self.warnings)}


@dataclass(frozen=True)
class Splits:
    """splits.json."""

    parts: Mapping[str, SplitRecord]
    """Of `train`, `val` and `test`."""
    class_names: tuple[str, ...]
    view: View
    """How images are shown to the network."""

    @classmethod
    def from_dict(cls, data: Any, name: str) -> "Splits":
        """From JSON; `name` is what errors call it."""
        read = JsonObject(data, name)
        parts = {split: read.child(split) for split in ("train", "val", "test")}
        return cls(
            {split: SplitRecord(part.integer("size", least=1), part.string("sha256")) for split, part in parts.items()},
            read.strings("class_names"),
            _view(read.child("view")),
        )


@dataclass(frozen=True)
class Environment:
    """env.json."""

    python: str
    platform: str
    packages: Mapping[str, str]
    """Versions by name."""
    devices: tuple[str, ...]

    @classmethod
    def from_dict(cls, data: Any, name: str) -> "Environment":
        """From JSON; `name` is what errors call it."""
        read = JsonObject(data, name, {"python": "unknown", "platform": "unknown", "packages": {}, "devices": ["unknown"]})
        packages = read.child("packages")
        versions = {package: packages.string(package) for package in packages.values}
        return cls(read.string("python"), read.string("platform"), versions, read.strings("devices"))


@dataclass(frozen=True)
class MixedPredictions:
    """predictions/mixed.npz: logits of mixed test samples, and the weight of the larger part of each."""

    logits: Float[Tensor, "M K"]
    lam: Float[Tensor, " M"]

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], name: str) -> "MixedPredictions":
        """From arrays `logits` and `lam`; `name` is what errors call them."""
        logits, lam = arrays["logits"], arrays["lam"]
        floating = all(np.issubdtype(array.dtype, np.floating) for array in (logits, lam))
        fits = logits.ndim == 2 and logits.shape[1] >= 2 and lam.shape == logits.shape[:1]
        got = f"{logits.dtype} {list(logits.shape)} and {lam.dtype} {list(lam.shape)}"
        require(floating and fits, f"{name}: logits [M, K] and lam [M] must be of floating point and as many, got {got}")
        require(bool(np.isfinite(logits).all()), f"{name}: logits must be finite, one is not")
        require(bool(((lam >= 0) & (lam <= 1)).all()), f"{name}: lam must lie in [0, 1], one does not")
        return cls(torch.from_numpy(logits), torch.from_numpy(lam))


def _view(read: JsonObject) -> View:
    mean, std = read.items("mean"), read.items("std")
    channels = [value for value in (*mean, *std) if is_number(value)]
    read.require(len(mean) == len(std) >= 1 and len(channels) == 2 * len(mean), "mean and std", "lists of as many numbers", [mean, std])
    augment, flip = read.values.get("augment"), read.values.get("flip")
    read.require(augment in ("none", "crop", "resized-crop"), "augment", "none, crop or resized-crop", augment)
    read.require(isinstance(flip, bool), "flip", "true or false", flip)
    return View(read.integer("image_size", least=1), tuple(mean), tuple(std), augment, read.integer("padding"), flip)  # type: ignore[arg-type]


def _metrics(read: JsonObject, key: str) -> Metrics:
    values = read.numbers(key)
    for name in _ALWAYS:
        read.require(values.get(name) is not None, f"{key}.{name}", "a number", values.get(name))
    return values
