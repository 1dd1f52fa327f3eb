"""What a calibration error shows by chance: the noise floor, by consistency resampling."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup.errors import require, require_number
from rankmixup.metrics.resampling import calibrated_draws, equal_width
from rankmixup.ops import as_tensor, check_unit

__all__ = ["NoiseFloor", "classwise_noise_floor", "ece_noise_floor", "noise_floor"]


class NoiseFloor(NamedTuple):
    """What a metric shows by chance for a perfectly calibrated model with these very confidences."""

    mean: float
    low: float
    high: float
    p_value: float
    """Probability that a perfectly calibrated model shows at least the observed value."""


def noise_floor(values: Float[Tensor, " R"], observed: float) -> NoiseFloor:
    """Mean, central 95 % range and p-value of `observed` from the values that calibrated models showed.

    >>> noise_floor(torch.tensor([0.01, 0.02, 0.03], dtype=torch.float64), 0.03)
    NoiseFloor(mean=0.02, low=0.0105, high=0.0295, p_value=0.5)
    """
    low, high = values.quantile(torch.tensor([0.025, 0.975], dtype=values.dtype)).tolist()
    # Counting the observation itself keeps the p-value above 0, as a Monte Carlo test must. The tolerance is far above
    # rounding and far below one sample in a million: the observed value and its replicates are summed in different orders.
    p_value = (1 + int((values >= observed - 1e-9).sum())) / (1 + len(values))
    return NoiseFloor(values.mean().item(), low, high, p_value)


def ece_noise_floor(
    confidence: Float[Tensor, " N"],
    observed: float,
    rng: torch.Generator,
    *,
    num_bins: int = 15,
    replicates: int = 1000,
) -> NoiseFloor:
    """Noise floor of ECE, with its 95 % range and the p-value of `observed`.

    Each replicate draws, for every sample, a right prediction with probability equal to its confidence.
    """
    confidence = check_unit("confidence", as_tensor("confidence", confidence), wait=True).detach().cpu()
    require(confidence.ndim == 1, f"confidence must have shape [N], got {list(confidence.shape)}")
    require(len(confidence) > 0, "confidence must hold at least one sample, got none")
    require_number("observed", observed)
    assign = equal_width(confidence, num_bins)
    total = confidence.double() @ assign
    right = torch.cat([draws @ assign.float() for draws in calibrated_draws(confidence, replicates, rng)])
    return noise_floor((total - right.double()).abs().sum(dim=1) / len(confidence), observed)


_CLASSWISE_DRAWS = 20_000_000
"""Labels drawn in all for the floor of classwise ECE, which costs a search among K classes for each."""


def classwise_noise_floor(
    probs: Float[Tensor, "N K"],
    bins: Callable[[Tensor], Tensor],
    num_bins: int,
    replicates: int,
    rng: torch.Generator,
) -> Float[Tensor, " R"]:
    """Summed classwise ECE of calibrated models: every label is drawn from its own row of probabilities.

    `bins` numbers the bins of a tensor of probabilities. Fewer than `replicates` values, never fewer than 100, come back
    where N is so large that all of them would take minutes.
    """
    samples, classes = probs.shape
    replicates = min(replicates, max(100, _CLASSWISE_DRAWS // samples))
    cells = classes * num_bins
    expected = torch.zeros(cells, dtype=torch.float64)
    counts = torch.zeros(replicates, cells)
    offset = torch.arange(classes) * num_bins
    for part in probs.split(max(1, 2_000_000 // max(classes, replicates))):
        cell = bins(part) + offset
        expected.index_add_(0, cell.flatten(), part.double().flatten())
        edges = part.double().cumsum(dim=1)
        draws = torch.rand(len(part), replicates, generator=rng, dtype=torch.float64) * edges[:, -1:]
        label = torch.searchsorted(edges, draws, right=True).clamp(max=classes - 1)
        counts.scatter_add_(1, cell.gather(1, label).T, torch.ones(1, 1).expand(replicates, len(part)))
    return (expected - counts.double()).abs().sum(dim=1) / samples
