"""Small tensor operations that every loss shares."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankmixup.errors import InvalidInput, require

__all__ = ["Reduction", "check_batch", "check_target", "confidence", "max_logit", "reduce", "upcast"]

Reduction = Literal["mean", "sum", "none"]


def upcast(logits: Tensor) -> Tensor:
    """float32 for half-precision logits, everything else unchanged: a loss is never computed in half precision."""
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def reduce(per_sample: Float[Tensor, " B"], reduction: Reduction) -> Float[Tensor, "..."]:
    """The one place where a per-sample loss becomes a scalar."""
    if reduction == "mean":
        return per_sample.mean()
    if reduction == "sum":
        return per_sample.sum()
    if reduction == "none":
        return per_sample
    raise InvalidInput(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")


def max_logit(logits: Float[Tensor, "*batch K"]) -> Float[Tensor, "*batch"]:
    """Largest logit of each row."""
    return logits.max(dim=-1).values


def confidence(logits: Float[Tensor, "*batch K"]) -> Float[Tensor, "*batch"]:
    """Largest softmax probability of each row, Eqs. (1) and (3), without forming the others.

    >>> confidence(torch.tensor([[0.0, 0.0], [0.0, 100.0]]))
    tensor([0.5000, 1.0000])
    """
    return torch.exp(max_logit(logits) - logits.logsumexp(dim=-1))


def check_batch(logits: Float[Tensor, "B K"], target: Int[Tensor, " B"]) -> Int[Tensor, " B"]:
    """Refuse logits and targets that do not belong together; gives back the targets as 64-bit integers, which torch insists on.

    The range of the labels is read only on the CPU: on a GPU it would stall every step, and the device asserts it anyway.
    """
    require(isinstance(logits, Tensor), f"a model must return one tensor of logits [B, K], got {type(logits).__name__}")
    require(logits.ndim == 2, f"logits must have shape [B, K], got {list(logits.shape)}")
    require(logits.shape[0] > 0, "logits must hold at least one sample, got an empty batch")
    check_target(target, len(logits), logits.shape[1])
    return target.long()


def check_target(target: Int[Tensor, " B"], size: int, classes: int) -> None:
    """Refuse what is not `size` indices of `classes` classes; the range is read only on the CPU, as above."""
    require(target.shape == (size,), f"target must hold one class index for each of {size} samples, got shape {list(target.shape)}")
    integer = not (target.is_floating_point() or target.dtype == torch.bool)
    require(integer, f"target must hold class indices, got dtype {target.dtype}")
    if target.device.type == "cpu" and size > 0:
        low, high = int(target.min()), int(target.max())
        wrong = low if low < 0 else high
        require(low >= 0 and high < classes, f"target must lie in 0..{classes - 1}, got {wrong}")
