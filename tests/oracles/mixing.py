"""Naive loops in Python floats (float64) for CRL, RegMixup, Remix and UniMix, written from their formulas."""

import math
from collections.abc import Sequence

Row = Sequence[float]


def softmax(row: Row) -> list[float]:
    top = max(row)
    powers = [math.exp(value - top) for value in row]
    return [power / sum(powers) for power in powers]


def cross_entropy(row: Row, label: int) -> float:
    top = max(row)
    return top + math.log(sum(math.exp(value - top) for value in row)) - row[label]


def mixture(row: Row, own: int, other: int, lam: float) -> float:
    return lam * cross_entropy(row, own) + (1 - lam) * cross_entropy(row, other)


def crl(logits: Sequence[Row], target: Sequence[int], correctness: Row, weight: float) -> list[float]:
    """Each sample against the next, written with cases where the library has a sign."""
    losses = []
    for i, row in enumerate(logits):
        j = i + 1 if i + 1 < len(logits) else 0
        gap = max(softmax(row)) - max(softmax(logits[j]))
        if correctness[i] > correctness[j]:
            ranking = max(0.0, correctness[i] - correctness[j] - gap)
        elif correctness[i] < correctness[j]:
            ranking = max(0.0, correctness[j] - correctness[i] + gap)
        else:
            ranking = 0.0
        losses.append(cross_entropy(row, target[i]) + weight * ranking)
    return losses


def crl_history(counts: Sequence[int], epoch: int) -> list[float]:
    """The published normalisation during epoch `epoch`, counted from 1."""
    lowest, most = min(counts), max(1, epoch - 1)
    return [0.0 if most == lowest else (count - lowest) / (most - lowest) for count in counts]


def regmixup_half(logits: Sequence[Row], mixed: Sequence[Row], target: Sequence[int], partner: Sequence[int], lam: float) -> float:
    """As released: both label sets over raw samples and mixes together, one mean over all 2B rows for each set."""
    rows, size = [*logits, *mixed], len(logits)
    own = sum(cross_entropy(rows[i], target[i % size]) for i in range(2 * size)) / (2 * size)
    labels = [*target, *(target[j] for j in partner)]
    other = sum(cross_entropy(rows[i], labels[i]) for i in range(2 * size)) / (2 * size)
    return lam * own + (1 - lam) * other


def remix_weight(lam: float, own: int, other: int, kappa: float, tau: float) -> float:
    if own / other >= kappa and lam < tau:
        return 0.0
    if own / other <= 1 / kappa and 1 - lam < tau:
        return 1.0
    return lam


def unimix_lambda(lam: float, own: int, other: int) -> float:
    moved = lam + other / (own + other)
    return moved - 1 if moved > 1 else moved


def unimix_probabilities(counts: Sequence[int], tau: float) -> list[float]:
    powers = [count**tau for count in counts]
    return [power / sum(powers) for power in powers]


def bayias(row: Row, label: int, counts: Sequence[int]) -> float:
    """Cross-entropy of z + log(n / sum n) - log(1 / K), all of it."""
    total, classes = sum(counts), len(counts)
    corrected = [z + math.log(n / total) - math.log(1 / classes) for z, n in zip(row, counts, strict=True)]
    return cross_entropy(corrected, label)
