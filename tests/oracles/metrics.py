"""Metrics as plain loops over Python floats, written from their definitions."""

import itertools
import math

import torch
from torch import Tensor


def top(probs: Tensor, target: Tensor) -> list[tuple[float, float]]:
    pairs = []
    for row, label in zip(probs.double().tolist(), target.tolist(), strict=True):
        best = max(range(len(row)), key=row.__getitem__)
        pairs.append((row[best], 1.0 if best == label else 0.0))
    return pairs


def bins(pairs: list[tuple[float, float]], num_bins: int) -> list[list[tuple[float, float]]]:
    """Right-closed equal-width bins: (h / H, (h + 1) / H]."""
    return [[pair for pair in pairs if h / num_bins < pair[0] <= (h + 1) / num_bins] for h in range(num_bins)]


def binned(probs: Tensor, target: Tensor, num_bins: int) -> dict[str, float]:
    pairs = top(probs, target)
    ece = oe = ue = mce = 0.0
    for members in bins(pairs, num_bins):
        if not members:
            continue
        confidence = sum(pair[0] for pair in members) / len(members)
        accuracy = sum(pair[1] for pair in members) / len(members)
        weight = len(members) / len(pairs)
        ece += weight * abs(confidence - accuracy)
        oe += weight * confidence * max(confidence - accuracy, 0)
        ue += weight * confidence * max(accuracy - confidence, 0)
        mce = max(mce, abs(confidence - accuracy))
    return {"ece": ece, "oe": oe, "ue": ue, "mce": mce}


def nll(probs: Tensor, target: Tensor) -> float:
    return sum(-math.log(row[label]) for row, label in zip(probs.double().tolist(), target.tolist(), strict=True)) / len(target)


def brier(probs: Tensor, target: Tensor) -> float:
    total = 0.0
    for row, label in zip(probs.double().tolist(), target.tolist(), strict=True):
        total += sum((p - (k == label)) ** 2 for k, p in enumerate(row))
    return total / len(target)


def adaptive(probs: Tensor, target: Tensor, num_bins: int) -> float:
    """Samples in order of confidence, dealt to bins by rank; equal confidences share their mean accuracy."""
    pairs = sorted(top(probs, target))
    shared = []
    for confidence, _ in pairs:
        tied = [correct for other, correct in pairs if other == confidence]
        shared.append((confidence, sum(tied) / len(tied)))
    total = 0.0
    for h in range(num_bins):
        members = [pair for rank, pair in enumerate(shared) if rank * num_bins // len(shared) == h]
        total += abs(sum(confidence - accuracy for confidence, accuracy in members))
    return total / len(pairs)


def adaptive_release(probs: Tensor, target: Tensor, num_bins: int) -> float:
    """Edges by linear interpolation of the sorted confidences at 0, n / H, ..., n over positions 0..n-1; then (lo, hi]."""
    pairs = sorted(top(probs, target))
    size = len(pairs)

    def interpolated(at: float) -> float:
        if at >= size - 1:
            return pairs[-1][0]
        below = math.floor(at)
        return pairs[below][0] + (at - below) * (pairs[below + 1][0] - pairs[below][0])

    edges = [interpolated(h * size / num_bins) for h in range(num_bins + 1)]
    total = 0.0
    for low, high in itertools.pairwise(edges):
        members = [pair for pair in pairs if low < pair[0] <= high]
        total += abs(sum(confidence - correct for confidence, correct in members))
    return total / size


def random_probs(samples: int, classes: int, rng: torch.Generator, sharpness: float = 2.0) -> tuple[Tensor, Tensor]:
    logits = sharpness * torch.randn(samples, classes, generator=rng, dtype=torch.float64)
    return logits.softmax(dim=1), torch.randint(classes, (samples,), generator=rng)
