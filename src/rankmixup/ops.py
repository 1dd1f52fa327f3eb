"""Small tensor operations that all losses share, and the checks of what functions are given.

Shapes and types are always checked. Values are read only on the CPU, unless a function says otherwise: on a GPU that would
make every step wait.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from rankmixup.errors import InvalidInput, require, require_choice, shown

PlainArray: TypeAlias = NDArray[Any] | Sequence[Any]
ArrayLike: TypeAlias = Tensor | PlainArray
"""What every public function takes in place of a tensor."""
Reduction = Literal["mean", "sum", "none"]
Logits: TypeAlias = Float[Tensor, "B K"] | PlainArray
Target: TypeAlias = Int[Tensor, " B"] | PlainArray
PerSample: TypeAlias = Float[Tensor, " B"] | PlainArray
Loss: TypeAlias = Float[Tensor, "..."]
"""A scalar, or one number for each sample with `reduction="none"`."""

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_INTEGERS = (torch.uint8, torch.int8, torch.uint16, torch.int16, torch.uint32, torch.int32, torch.uint64, torch.int64)
_SINGLE_LABEL = "this library is for single-label classification (one class index per sample), not for multi-label or regression targets"


def upcast(logits: Tensor) -> Tensor:
    """float32 for half-precision logits, everything else unchanged: a loss is never computed in half precision."""
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def reduce(per_sample: Float[Tensor, " B"], reduction: Reduction) -> Float[Tensor, "..."]:
    """The one place where a per-sample loss becomes a scalar."""
    require_choice("reduction", reduction, ("mean", "sum", "none"))
    if reduction == "none":
        return per_sample
    return per_sample.mean() if reduction == "mean" else per_sample.sum()


def max_logit(logits: Float[Tensor, "*batch K"]) -> Float[Tensor, "*batch"]:
    """Largest logit of each row."""
    return logits.max(dim=-1).values


def confidence(logits: Float[Tensor, "*batch K"]) -> Float[Tensor, "*batch"]:
    """Largest softmax probability of each row, Eqs. (1) and (3), without forming the others.

    >>> confidence(torch.tensor([[0.0, 0.0], [0.0, 100.0]]))
    tensor([0.5000, 1.0000])
    """
    return torch.exp(max_logit(logits) - logits.logsumexp(dim=-1))


def log_odds(logits: Float[Tensor, "*batch K"]) -> Float[Tensor, "*batch"]:
    """Log-odds of the largest probability of each row: its logit less the logsumexp of the others.

    A constant added to all logits changes nothing, and it does not saturate as the probability does.

    >>> log_odds(torch.tensor([[1.0, 1.0], [3.0, 1.0], [-1.0, -3.0]]))
    tensor([0., 2., 2.])
    """
    require(logits.shape[-1] >= 2, f"log-odds need at least 2 classes, got {logits.shape[-1]}")
    largest, place = logits.max(dim=-1)
    return largest - logits.scatter(-1, place.unsqueeze(-1), -torch.inf).logsumexp(dim=-1)


def as_tensor(name: str, value: Any) -> Tensor:
    """The tensor of a tensor, a numpy array or a list of numbers, in any byte order.

    Floating-point numbers keep their precision, but numpy's long double becomes float64; integers become int64.
    """
    if isinstance(value, Tensor):
        require(not value.is_meta, f"{name} must hold values, got a tensor on the meta device")
        return value.long() if check_tensor(name, value).dtype in _INTEGERS else value
    parts = value if isinstance(value, (list, tuple)) else (value,)
    require(not any(np.ma.isMaskedArray(part) for part in parts), f"{name} must not be a masked array, fill or leave out what is masked")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InvalidInput(f"{name} must be an array of numbers, got {shown(value)}") from error
    require(array.dtype.kind in "biuf", f"{name} must hold real numbers, got {type(value).__name__} of type {array.dtype}")
    if array.dtype.kind in "iu":
        largest = int(array.max(initial=0))
        require(largest < 2**63, f"{name} must be less than 2^63, got {largest}")
        array = array.astype(np.int64, copy=False)
    with np.errstate(over="ignore"):  # what is too large for float64 becomes infinite, and is met as such
        array = array.astype(np.float64 if array.dtype.itemsize > 8 else array.dtype.newbyteorder("="), copy=False)
    torch_can_share = array.flags.writeable and all(stride >= 0 and stride % array.itemsize == 0 for stride in array.strides)
    return torch.from_numpy(array if torch_can_share else array.copy())


def check_tensor(name: str, value: Any, like: Tensor | None = None) -> Tensor:
    """`value` as a dense tensor of real numbers, on the device of `like`, where an array or a list is moved."""
    if not isinstance(value, Tensor):
        value = as_tensor(name, value)
        return value if like is None else value.to(like.device)
    dense = value.layout == torch.strided and not value.is_nested and not value.is_quantized
    require(dense, f"{name} must be a dense tensor, got layout {value.layout}{' (nested)' if value.is_nested else ''}")
    require(not value.is_complex(), f"{name} must hold real numbers, got {value.dtype}")
    if like is not None:
        check_same_device(name, value, like)
    return value


def check_floats(name: str, value: Any, like: Tensor | None = None) -> Tensor:
    """`value` as 16, 32 or 64-bit floating-point numbers; refuses other types of numbers."""
    value = check_tensor(name, value, like)
    require(value.dtype in _FLOATS, f"{name} must be floating point, got {value.dtype}")
    return value


def check_unit(name: str, value: Any, like: Tensor | None = None, *, wait: bool = False) -> Tensor:
    """`value` as floating-point numbers; refuses those that do not lie in 0..1, on a GPU only with `wait`."""
    value = check_floats(name, value, like)
    low, high = _range(value, wait)
    # NaN fails both comparisons.
    require(low >= 0 and high <= 1, f"{name} must lie in 0..1, got {high if low >= 0 else low:.6g}")
    return value


def check_indices(name: str, value: Any, size: int, like: Tensor | None = None, *, wait: bool = False) -> Int[Tensor, "..."]:
    """`value` as 64-bit integers, which torch insists on; refuses what does not lie in 0..size - 1, on a GPU only with `wait`."""
    indices = check_integers(name, value, like)
    low, high = _range(indices, wait)
    require(low >= 0 and high < size, f"{name} must lie in 0..{size - 1}, got {low if low < 0 else high}")
    return indices


def check_counts(name: str, value: Any, like: Tensor | None = None, *, wait: bool = False) -> Int[Tensor, "..."]:
    """`value` as 64-bit integers; refuses negative ones, on a GPU only with `wait`."""
    counts = check_integers(name, value, like)
    low, _ = _range(counts, wait)
    require(low >= 0, f"{name} must not be negative, got {low}")
    return counts


def _range(value: Tensor, wait: bool) -> tuple[float, float]:
    """The smallest and the largest value; infinities that pass every check where there are none, or where they are not to be read."""
    if value.numel() == 0 or not (wait or value.device.type == "cpu"):
        return math.inf, -math.inf
    low, high = value.detach().aminmax()
    return low.item(), high.item()


def check_integers(name: str, value: Any, like: Tensor | None = None) -> Int[Tensor, "..."]:
    """`value` as 64-bit integers; refuses other types of numbers."""
    value = check_tensor(name, value, like)
    require(value.dtype in _INTEGERS, f"{name} must hold whole numbers, got dtype {value.dtype}")
    return value.detach().long()


def check_same_device(name: str, value: Tensor, like: Tensor) -> None:
    """Refuse tensors of two devices, between which nothing is computed."""
    require(value.device == like.device, f"{name} must be on the device of the others, {like.device}, got {value.device}")


def class_indices(
    name: str, target: Any, samples: int, classes: int, like: Tensor | None = None, *, wait: bool = False
) -> Int[Tensor, " B"]:
    """`target` as 64-bit integers; refuses what is not one index of `classes` classes for each of `samples` samples."""
    target = check_tensor(name, target, like)
    one_each = f"{name} must hold one class index for each of {samples} samples, got"
    if target.shape == (samples, classes) and target.numel() > 0 and not target.is_meta:
        values = target.double()
        one_hot = bool(((values == 0) | (values == 1)).all() and (values.sum(dim=1) == 1).all())
        require(not one_hot, f"{one_each} one-hot rows of shape {list(target.shape)}; {name}.argmax(1) are the indices")
    require(target.ndim <= 1, f"{one_each} shape {list(target.shape)}; {_SINGLE_LABEL}")
    if target.dtype not in _INTEGERS:
        advice = f"; {_SINGLE_LABEL}" if target.is_floating_point() else ""
        raise InvalidInput(f"{name} must hold class indices, got dtype {target.dtype}{advice}")
    require(target.shape == (samples,), f"{one_each} shape {list(target.shape)}")
    return check_indices(name, target, classes, wait=wait)


def check_logits(logits: Any, *, rows: int | None = None, classes: int | None = None) -> Float[Tensor, "B K"]:
    """What a model returned; refuses what is not one tensor of logits [B, K], with `rows` rows and `classes` columns where given."""
    if not isinstance(logits, Tensor):
        raise InvalidInput(
            f"a model must return one tensor of logits [B, K], got {type(logits).__name__}; wrap it in a module that returns logits alone"
        )
    check_floats("logits", logits)
    one = "; for two classes, give the model two outputs instead of one" if logits.ndim == 1 or logits.shape[1:] == (1,) else ""
    require(logits.ndim == 2 and logits.shape[1] > 0, f"logits must have shape [B, K], got {list(logits.shape)}{one}")
    if rows is not None:
        require(len(logits) == rows, f"a model must return one row of logits for each of {rows} samples, got {len(logits)} rows")
    if classes is not None:
        wrong = f"a model must return one logit for each of {classes} classes (num_classes), got logits of shape {list(logits.shape)}"
        require(logits.shape[1] == classes, wrong + one)
    return logits


def check_batch(logits: Logits, target: Target, names: tuple[str, str] = ("logits", "target")) -> tuple[Tensor, Tensor]:
    """Logits `[B, K]`, never in half precision, and their class indices `[B]` as 64-bit integers; refuses what does not fit together."""
    logits = check_floats(names[0], logits)
    require(logits.ndim == 2 and logits.shape[1] > 0, f"{names[0]} must have shape [B, K], got {list(logits.shape)}")
    require(len(logits) > 0, f"{names[0]} must hold at least one sample, got an empty batch")
    return upcast(logits), class_indices(names[1], target, len(logits), logits.shape[1], logits)
