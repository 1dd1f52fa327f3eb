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


def ece_l2(probs: Tensor, target: Tensor, num_bins: int, *, debias: bool = False) -> float:
    """Root of the weighted squared gaps; debiased, a (1 - a) / (n - 1) is taken off each, and a bin of one sample counts 0."""
    pairs = top(probs, target)
    total = 0.0
    for members in bins(pairs, num_bins):
        n = len(members)
        if n == 0 or (debias and n == 1):
            continue
        accuracy = sum(pair[1] for pair in members) / n
        square = (sum(pair[0] for pair in members) / n - accuracy) ** 2
        total += n / len(pairs) * (square - (accuracy * (1 - accuracy) / (n - 1) if debias else 0))
    return math.sqrt(max(total, 0))


def classwise(probs: Tensor, target: Tensor, num_bins: int) -> list[float]:
    """ECE of each class's probability; 0 belongs to the first bin."""
    errors = []
    for k in range(probs.shape[1]):
        pairs = [(row[k], 1.0 if label == k else 0.0) for row, label in zip(probs.double().tolist(), target.tolist(), strict=True)]
        error = 0.0
        for h in range(num_bins):
            members = [pair for pair in pairs if h / num_bins < pair[0] <= (h + 1) / num_bins or (h == 0 and pair[0] == 0)]
            if members:
                gap = sum(pair[0] for pair in members) / len(members) - sum(pair[1] for pair in members) / len(members)
                error += len(members) / len(pairs) * abs(gap)
        errors.append(error)
    return errors


def top_k(probs: Tensor, target: Tensor, k: int) -> float:
    """Share of labels among the first k classes, sorted by probability and then by index."""
    rows = zip(probs.double().tolist(), target.tolist(), strict=True)
    return sum(label in sorted(range(len(row)), key=lambda c: (-row[c], c))[:k] for row, label in rows) / len(target)


def ks(probs: Tensor, target: Tensor) -> float:
    """Largest |sum of confidence - correct| / N over the samples of at most some confidence."""
    pairs = top(probs, target)
    return max(abs(sum(c - right for c, right in pairs if c <= threshold)) for threshold, _ in pairs) / len(pairs)


def aurc(probs: Tensor, target: Tensor) -> float:
    """Mean error rate of the k most confident; of equally confident ones, which share a place, the mean error rate counts."""
    pairs = sorted(top(probs, target), reverse=True)
    errors = []
    for confidence, _ in pairs:
        tied = [1 - right for other, right in pairs if other == confidence]
        errors.append(sum(tied) / len(tied))
    return sum(sum(errors[:k]) / k for k in range(1, len(pairs) + 1)) / len(pairs)


def best_aurc(size: int, wrong: int) -> float:
    errors = [0.0] * (size - wrong) + [1.0] * wrong
    return sum(sum(errors[:k]) / k for k in range(1, size + 1)) / size


def auroc(negative: list[float], positive: list[float]) -> float:
    """Every pair; a tie counts half."""
    return sum((p > n) + 0.5 * (p == n) for p in positive for n in negative) / (len(positive) * len(negative))


def smooth(pairs: list[tuple[float, float]], points: int = 1000) -> float:
    """smECE by its definition: a sum over samples and their reflections at every point, the bandwidth by bisection."""

    def norm(sigma: float) -> float:
        total = 0.0
        for j in range(points):
            t = (j + 0.5) / points
            smoothed = 0.0
            for confidence, right in pairs:
                for image in (2 * k + sign * confidence for k in range(-3, 4) for sign in (-1, 1)):
                    smoothed += (right - confidence) * math.exp(-(((t - image) / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))
            total += abs(smoothed) / len(pairs)
        return total / points

    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if norm(middle) > middle else (low, middle)
    return low


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
