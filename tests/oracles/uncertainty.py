"""Resampling one replicate at a time, sample by sample."""

import torch
from torch import Tensor

from rankmixup.evaluation import all_metrics
from tests.oracles.metrics import adaptive, binned


def two_class(confidence: Tensor, correct: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities and labels of a two-class model with these confidences (at least 0.5) and this correctness."""
    return torch.stack([confidence, 1 - confidence], dim=1), 1 - correct.long()


def calibrated_values(confidence: Tensor, num_bins: int, replicates: int, rng: torch.Generator) -> dict[str, Tensor]:
    """Errors of models that are right with exactly their confidence, from the naive loops."""
    values: dict[str, list[float]] = {}
    for _ in range(replicates):
        correct = torch.rand(len(confidence), generator=rng) < confidence
        probs, target = two_class(confidence, correct)
        found = binned(probs, target, num_bins) | {"aece": adaptive(probs, target, num_bins)}
        for key, value in found.items():
            values.setdefault(key, []).append(value)
    return {key: torch.tensor(column, dtype=torch.float64) for key, column in values.items()}


def repeated(probs: Tensor, target: Tensor, times: Tensor, num_bins: int) -> dict[str, float | None]:
    """Every metric of the data set that holds each sample as often as `times` says."""
    index = torch.arange(len(target)).repeat_interleave(times.long())
    return all_metrics(probs[index], target[index], num_bins=num_bins, from_logits=False)
