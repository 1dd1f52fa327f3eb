"""Does confidence follow lambda? The paper's hypothesis, Eqs. (7) to (9), made measurable."""

import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup.errors import require

__all__ = ["confidence_by_lambda", "fold_lambda"]


def fold_lambda(lam: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """max(lam, 1 - lam): a mix with lam = 0.2 is as much its partner as one with 0.8 is itself."""
    return torch.maximum(lam, 1 - lam)


def confidence_by_lambda(
    confidence: Float[Tensor, " N"], lam: Float[Tensor, " N"], *, num_bins: int = 10
) -> tuple[Float[Tensor, " H"], Float[Tensor, " H"]]:
    """Mean confidence of mixed samples in equal-width bins of max(lam, 1 - lam), from 0.5 to 1; bin centres and means.

    Empty bins give NaN.

    >>> centres, means = confidence_by_lambda(torch.tensor([0.5, 0.7, 0.9]), torch.tensor([0.4, 0.7, 1.0]), num_bins=2)
    >>> centres.tolist(), [round(mean, 2) for mean in means.tolist()]
    ([0.625, 0.875], [0.6, 0.9])
    """
    require(num_bins >= 1, f"num_bins must be at least 1, got {num_bins}")
    require(confidence.shape == lam.shape, f"confidence and lam must have one shape, got {list(confidence.shape)} and {list(lam.shape)}")
    index = ((fold_lambda(lam) - 0.5) * 2 * num_bins).long().clamp(0, num_bins - 1)
    count = torch.bincount(index, minlength=num_bins)
    total = torch.zeros(num_bins, dtype=confidence.dtype).index_add_(0, index, confidence)
    centres = 0.5 + (torch.arange(num_bins) + 0.5) / (2 * num_bins)
    return centres, total / count
