"""Bootstrap intervals that are corrected for bias and skewness (BCa; Efron, 1987) and for few samples (Hesterberg, 2015).

The percentile bootstrap is too narrow with few samples, and misses high values of skewed metrics, as NLL and AURC are. BCa moves its two
levels: by how far the replicates lie to one side of the observed value, and by the skewness of what single samples add to it, which is
known in closed form. A bootstrap's spread is too small by sqrt((n - 1) / n), and Student's quantiles are wider than the normal ones.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

_NORMAL = 1.959964


def bca_interval(values: Float[Tensor, " R"], observed: float, size: int, skewness: float = 0.0) -> tuple[float, float]:
    """The 95 % interval from replicates of a metric of `size` samples, whose influences have this `skewness`.

    >>> values = torch.randn(100_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> [round(end, 1) for end in bca_interval(values, 0.0, 1000)], [round(end, 1) for end in bca_interval(values, 0.0, 5)]
    ([-2.0, 2.0], [-3.1, 3.1])
    """
    acceleration = skewness / (6 * math.sqrt(size))
    # As in `noise_floor`: the observed value and its replicates are summed in different orders.
    below = ((values < observed - 1e-9).double().mean() + (values <= observed + 1e-9).double().mean()) / 2
    least = 1 / (2 * len(values))
    bias = torch.special.ndtri(below.clamp(least, 1 - least)).item()
    spread = math.sqrt(size / max(size - 1, 1)) * _student(max(size - 1, 1))
    moved = [bias + sign * spread for sign in (-1, 1)]
    levels = [bias + each / max(1 - acceleration * each, 0.1) for each in moved]
    low, high = values.quantile(torch.special.ndtr(values.new_tensor(levels))).tolist()
    return low, high


def _student(freedom: int) -> float:
    """97.5 % quantile of Student's distribution: an expansion that is right to 0.01 from four degrees of freedom."""
    z = _NORMAL
    terms = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + sum(term / freedom**power for power, term in enumerate(terms, 1))


def skewness(influence: Float[Tensor, " N"]) -> float:
    """Of the influence of each sample, which has mean 0."""
    square = influence.square().mean().item()
    return influence.pow(3).mean().item() / square**1.5 if square > 0 else 0.0


def ranked_influence(right: Bool[Tensor, " N"], last: Bool[Tensor, " N"]) -> dict[str, Float[Tensor, " N"]]:
    """What one more of each sample adds to AURC, E-AURC and AUROC, times the number of samples.

    Samples are in order of confidence, some right and some wrong; `last` marks the last of equal ones, which share it evenly.
    """
    wrong, size = (~right).double().flip(0), len(right)
    run = torch.nn.functional.pad(last[:-1].long().cumsum(0), (1, 0)).flip(0)
    count = torch.bincount(run)

    def shared(values: Tensor) -> Tensor:
        return (torch.bincount(run, values) / count)[run]

    def beyond(values: Tensor) -> Tensor:
        return shared(values.flip(0).cumsum(0).flip(0))

    place, mean = torch.arange(1, size + 1, dtype=torch.float64), wrong.mean()
    evenly = shared(wrong)
    errors = evenly.cumsum(0)
    risk = errors / place
    aurc = shared(risk) - risk.mean() + wrong * beyond(1 / place) - beyond(risk / place)
    # Shares of the other kind that are more confident, ties by half.
    above = shared(errors - evenly / 2) / (size * mean)
    right_above = shared(place - errors - (1 - evenly) / 2) / (size * (1 - mean))
    area = right_above[wrong == 1].mean()
    auroc = torch.where(wrong == 1, (right_above - area) / mean, (1 - above - area) / (1 - mean))
    found = {"aurc": aurc, "eaurc": aurc + (wrong - mean) * (-mean).log1p(), "auroc_correct": auroc}
    return {key: values.flip(0) for key, values in found.items()}
