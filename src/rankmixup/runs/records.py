"""What the files of a run directory hold, checked once, when they are read. Unknown keys are left alone: later versions may add some."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypedDict, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from rankmixup.data import View
from rankmixup.errors import require, shown

Positive = Annotated[int, "at least 1"]
Metrics = Annotated[Mapping[str, Any], "metrics"]
"""Numbers as `all_metrics` gives them, or None; accuracy, nll, ece, oe and ue are always numbers."""
_ALWAYS = ("accuracy", "nll", "ece", "oe", "ue")
_MISSING = object()
R = TypeVar("R", bound="Record")


class Record:
    """What a JSON object holds, as a dataclass."""

    @classmethod
    def from_dict(cls: type[R], data: Any, name: str) -> R:
        """From JSON; `name` is what errors call it."""
        return _checked(cls, data, name)


@dataclass(frozen=True)
class Selected:
    """The epoch whose weights were kept."""

    rule: str
    epoch: Positive


@dataclass(frozen=True)
class Temperature:
    """A temperature fitted on validation, and metrics of the test split after it."""

    value: float
    test: Metrics


class SplitMetrics(TypedDict):
    """Metrics of the two splits that a run is evaluated on."""

    val: Metrics
    test: Metrics


@dataclass(frozen=True)
class RunResult(Record):
    """result.json."""

    id: str
    selection: Selected
    metrics: SplitMetrics
    temperature: Mapping[str, Temperature]
    """By objective."""
    seconds: float
    """What training took."""
    content: Mapping[str, Any]
    """The whole file as it stands."""

    @classmethod
    def from_dict(cls, data: Any, name: str) -> "RunResult":
        return _checked(cls, {**data, "content": data} if isinstance(data, dict) else data, name)


@dataclass(frozen=True, kw_only=True)
class EpochRecord(Record):
    """One line of log.jsonl."""

    epoch: Positive
    train: Mapping[str, float | None]
    """Mean loss of the epoch, and of each of its terms."""
    val: Metrics
    ranking: Mapping[str, float | None] = field(default_factory=dict)
    """See `ranking_diagnostics`."""
    lr: float
    seconds: float
    """Of training, up to this epoch."""
    warnings: tuple[str, ...] = ()
    dial: Mapping[str, float | None] = field(default_factory=dict)
    """Fields of the method that are "auto", with the values that the epoch was trained with."""
    gap: float | None = None
    """Mean confidence less accuracy of the validation samples after the epoch, which sets their next values."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        record = {**dataclasses.asdict(self), "warnings": list(self.warnings)}
        return record if self.dial else {key: value for key, value in record.items() if key not in ("dial", "gap")}


@dataclass(frozen=True)
class SplitRecord:
    """How many samples a split has, and the hash of the list of them."""

    size: Positive
    sha256: str


@dataclass(frozen=True)
class Splits(Record):
    """splits.json."""

    train: SplitRecord
    val: SplitRecord
    test: SplitRecord
    class_names: tuple[str, ...]
    view: View
    """How images are shown to the network."""

    @property
    def parts(self) -> dict[str, SplitRecord]:
        """The splits by name."""
        return {"train": self.train, "val": self.val, "test": self.test}

    @classmethod
    def from_dict(cls, data: Any, name: str) -> "Splits":
        splits: Splits = _checked(cls, data, name)
        view = splits.view
        require(len(view.mean) == len(view.std) >= 1, f"{name}: view: mean and std must be lists of as many numbers, got {shown(view)}")
        fits = not view.shape or (view.shape[0] == len(view.mean) and min(view.shape) >= 1)
        require(fits, f"{name}: view: shape must begin with the number of channels, got {shown(view)}")
        require(view.image_size >= 1, f"{name}: view: image_size must be at least 1, got {view.image_size}")
        return splits


@dataclass(frozen=True)
class Environment(Record):
    """env.json."""

    python: str = "unknown"
    platform: str = "unknown"
    packages: Mapping[str, str] = field(default_factory=dict)
    """Versions by name."""
    devices: tuple[str, ...] = ("unknown",)


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


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # of an integer that float64 cannot hold
        return False


_RULES: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    str: ("a string", lambda value: isinstance(value, str)),
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("an integer of at least 0", lambda value: type(value) is int and 0 <= value < 2**63),
    Positive: ("an integer of at least 1", lambda value: type(value) is int and 1 <= value < 2**63),
    float: ("a number", _is_number),
    float | None: ("a number or null", lambda value: value is None or _is_number(value)),
    Any: ("anything", lambda value: True),
}


def _checked(kind: Any, value: Any, name: str) -> Any:
    """`value` of JSON as an object of the type `kind`, which may be nested; `name` is what errors call it."""

    def check(condition: bool, rule: str) -> None:
        require(condition, f"{name} must be {rule}, {'it is missing' if value is _MISSING else f'got {shown(value)}'}")

    if kind in _RULES:
        rule, is_valid = _RULES[kind]
        check(is_valid(value), rule)
        return float(value) if kind is float else value
    arguments = get_args(kind)
    if get_origin(kind) is Literal:
        check(value in arguments, " or ".join(arguments))
        return value
    if get_origin(kind) is tuple:
        check(isinstance(value, list), "a list")
        return tuple(_checked(arguments[0], each, f"{name}[{place}]") for place, each in enumerate(value))
    check(isinstance(value, dict), "a JSON object")
    if kind == Metrics:
        for key in _ALWAYS:
            _checked(float, value.get(key), f"{name}: {key}")
        return _checked(Mapping[str, float | None], value, name)
    if get_origin(kind) is Mapping:
        return {key: _checked(arguments[1], each, f"{name}: {shown(key)}") for key, each in value.items()}
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    optional = {each.name for each in fields if (each.default, each.default_factory) != (dataclasses.MISSING, dataclasses.MISSING)}
    hints = {key: hint for key, hint in get_type_hints(kind, include_extras=True).items() if key in value or key not in optional}
    return kind(**{key: _checked(hint, value.get(key, _MISSING), f"{name}: {key}") for key, hint in hints.items()})
