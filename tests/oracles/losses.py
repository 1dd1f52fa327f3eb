"""The losses as plain loops over Python numbers, written from their definitions. One row of logits at a time, no tensors."""

import math

import torch
from hypothesis import strategies as st
from torch import Tensor

WIDTH = 0.4


def batch(rng: torch.Generator, size: int = 7, classes: int = 5, scale: float = 3.0) -> tuple[Tensor, Tensor]:
    """Random logits in float64 and random targets."""
    logits = torch.randn(size, classes, generator=rng, dtype=torch.float64) * scale
    return logits, torch.randint(classes, (size,), generator=rng)


@st.composite
def batches(draw: st.DrawFn, min_classes: int = 2) -> tuple[Tensor, Tensor]:
    """A small batch of any logits up to 50 in size, and its targets."""
    size, classes = draw(st.integers(1, 4)), draw(st.integers(min_classes, 5))
    row = st.lists(st.floats(-50, 50, width=32), min_size=classes, max_size=classes)
    logits = draw(st.lists(row, min_size=size, max_size=size))
    target = draw(st.lists(st.integers(0, classes - 1), min_size=size, max_size=size))
    return torch.tensor(logits, dtype=torch.float64), torch.tensor(target)


def log_softmax(row: list[float]) -> list[float]:
    top = max(row)
    total = math.log(sum(math.exp(z - top) for z in row)) + top
    return [z - total for z in row]


def softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def each(loss, logits: Tensor, target: Tensor, **options) -> Tensor:
    """A one-row loss over a batch."""
    rows = [loss(row, y, **options) for row, y in zip(logits.tolist(), target.tolist(), strict=True)]
    return torch.tensor(rows, dtype=torch.float64)


def cross_entropy(row: list[float], y: int) -> float:
    return -log_softmax(row)[y]


def label_smoothing(row: list[float], y: int, *, smoothing: float) -> float:
    loss = 0.0
    for k, log_p in enumerate(log_softmax(row)):
        label = smoothing / len(row) + ((1 - smoothing) if k == y else 0.0)
        loss -= label * log_p
    return loss


def focal(row: list[float], y: int, *, gamma: float) -> float:
    log_p = log_softmax(row)[y]
    return -((1 - math.exp(log_p)) ** gamma) * log_p


def flsd(row: list[float], y: int) -> float:
    p = math.exp(log_softmax(row)[y])
    return focal(row, y, gamma=5.0 if p < 0.2 else 3.0)


def entropy(row: list[float]) -> float:
    return -sum(math.exp(log_p) * log_p for log_p in log_softmax(row))


def entropy_penalty(row: list[float], y: int, *, weight: float, per_class: bool) -> float:
    return cross_entropy(row, y) - weight * entropy(row) / (len(row) if per_class else 1)


def mbls(row: list[float], y: int, *, margin: float, weight: float) -> float:
    penalty = 0.0
    for z in row:
        penalty += max(0.0, max(row) - z - margin) / len(row)
    return cross_entropy(row, y) + weight * penalty


def cpc(row: list[float], y: int, *, discrimination: float, exclusion: float) -> float:
    classes = len(row)
    others = [z for j, z in enumerate(row) if j != y]
    bdc = sum(softplus(-(row[y] - z)) for z in others) / (classes - 1)
    bec = 0.0
    for z_j in others:
        for z_k in others:
            bec += 0.5 * softplus(-(z_j - z_k)) / (classes - 1) / (classes - 2)
    return cross_entropy(row, y) + discrimination * bdc + exclusion * bec


def _confidences(logits: Tensor, target: Tensor) -> list[tuple[float, bool]]:
    pairs = []
    for row, y in zip(logits.tolist(), target.tolist(), strict=True):
        log_p = log_softmax(row)
        pairs.append((math.exp(max(log_p)), log_p.index(max(log_p)) == y))
    return pairs


def mmce_squared(logits: Tensor, target: Tensor) -> float:
    samples = _confidences(logits, target)
    total = 0.0
    for r_i, c_i in samples:
        for r_j, c_j in samples:
            total += (c_i - r_i) * (c_j - r_j) * math.exp(-abs(r_i - r_j) / WIDTH)
    return total / len(samples) ** 2


def mmce_weighted(logits: Tensor, target: Tensor) -> float:
    samples = _confidences(logits, target)
    right = [r for r, c in samples if c]
    wrong = [r for r, c in samples if not c]
    if not right or not wrong:
        return 0.0

    def part(left: list[tuple[float, float]], other: list[tuple[float, float]]) -> float:
        total = 0.0
        for r_i, u_i in left:
            for r_j, u_j in other:
                total += u_i * u_j * math.exp(-abs(r_i - r_j) / WIDTH)
        pairs = len(left) * len(other)
        return total / pairs / (pairs + 1e-5)

    under, over = [(r, 1 - r) for r in right], [(r, r) for r in wrong]
    return math.sqrt(max(0.0, part(under, under) + part(over, over) - 2 * part(under, over)) + 1e-10)
