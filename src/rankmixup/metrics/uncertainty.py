"""How much of a calibration error is chance: the noise floor by consistency resampling."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup.errors import require
from rankmixup.metrics.calibration import Bins, bin_index

__all__ = ["NoiseFloor", "ece_noise_floor"]


class NoiseFloor(NamedTuple):
    """What a metric shows by chance for a perfectly calibrated model with these very confidences."""

    mean: float
    low: float
    high: float
    p_value: float
    """Probability that a perfectly calibrated model shows at least the observed value."""


def ece_noise_floor(
    confidence: Float[Tensor, " N"],
    observed: float,
    rng: torch.Generator,
    *,
    num_bins: int = 15,
    replicates: int = 1000,
) -> NoiseFloor:
    """Noise floor of ECE, with its 95 % range and the p-value of `observed`.

    Each replicate draws, for every sample, a right prediction with probability equal to its confidence. Only the number
    of right ones in each bin matters, so that a replicate is H numbers, drawn sample by sample in chunks of constant memory.
    """
    require(len(confidence) > 0, "confidence must hold at least one sample, got none")
    require(replicates >= 1, f"replicates must be at least 1, got {replicates}")
    confidence = confidence.detach().cpu().float()
    index = bin_index(confidence, num_bins)
    count = torch.bincount(index, minlength=num_bins).double()
    total = torch.zeros(num_bins, dtype=torch.float64).index_add_(0, index, confidence.double())
    correct = torch.zeros(replicates, num_bins)
    for start in range(0, len(confidence), 4096):
        part = slice(start, start + 4096)
        draws = torch.rand(replicates, len(confidence[part]), generator=rng) < confidence[part]
        correct.index_add_(1, index[part], draws.float())
    values = torch.stack([Bins(count, total, row).ece() for row in correct.double()])
    low, high = values.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    # Counting the observation itself keeps the p-value above 0, as a Monte Carlo test must.
    p_value = (1 + int((values >= observed).sum())) / (1 + replicates)
    return NoiseFloor(values.mean().item(), low, high, p_value)
