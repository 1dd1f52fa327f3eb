"""Accuracy, NLL, Brier score and ECE in float64, from their definitions, with numpy alone."""

import math

import numpy as np

from studies.fuzzing.case import Difference
from studies.fuzzing.values import Sample

__all__ = ["KEYS", "agree", "exact_metrics"]

KEYS = ("accuracy", "nll", "brier", "ece")
_TOLERANCE = 1e-9
_BITS = (53, 24, 11, 8)
"""Of float64, float32, float16 and bfloat16, in which probabilities may have been given: k/B belongs to bin k in each of them."""


def exact_metrics(sample: Sample, num_bins: int = 15) -> dict[str, list[float]]:
    """Each metric's value; of ECE several, where confidences lie on an edge and the type or rounding decides between two bins."""
    scores, labels = sample.exact, sample.labels.astype(np.int64)
    rows = np.arange(len(scores))
    if sample.from_logits:
        shifted = scores - scores.max(axis=1, keepdims=True)
        logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        probs = np.exp(logs)
    else:
        probs = scores
        with np.errstate(divide="ignore"):
            logs = np.log(probs)
    one_hot = np.zeros_like(probs)
    one_hot[rows, labels] = 1
    prediction = scores.argmax(axis=1)
    confidence, right = probs[rows, prediction], prediction == labels
    return {
        "accuracy": [float(right.mean())],
        "nll": [float(-logs[rows, labels].mean())],
        "brier": [float(((probs - one_hot) ** 2).sum(axis=1).mean())],
        "ece": [_ece(confidence, right, confidence + shift, num_bins, bits) for bits in _BITS for shift in (0.0, -1e-12, 1e-12)],
    }


def _ece(confidence: np.ndarray, right: np.ndarray, position: np.ndarray, num_bins: int, bits: int) -> float:
    total = 0.0
    for number in range(num_bins):
        low, high = (_edge(each / num_bins, bits) for each in (number, number + 1))
        inside = (position > low if number else position > -1) & (position <= high if number < num_bins - 1 else position < 2)
        if inside.any():
            total += abs(confidence[inside].sum() - right[inside].sum())
    return total / len(confidence)


def _edge(exact: float, bits: int) -> float:
    """The largest number that a confidence of `exact` can be rounded to, or computed as in single precision."""
    mantissa, exponent = np.frexp(exact)
    return max(exact, float(np.ldexp(np.round(np.ldexp(mantissa, bits)), exponent - bits))) + 1e-6


def agree(found: dict[str, float | None], sample: Sample, num_bins: int = 15) -> None:
    """Raise `Difference` unless every metric of the oracle that was found has its value."""
    for key, expected in exact_metrics(sample, num_bins).items():
        if key not in found:
            continue
        value = found[key]
        if value is None:  # JSON has no infinity: that of a probability of 0
            value = math.inf
        close = any(value == each or abs(value - each) <= _TOLERANCE * max(1.0, abs(each)) for each in expected)
        if not close:
            raise Difference(f"{key} must be {expected[0]!r}, got {value!r}")
