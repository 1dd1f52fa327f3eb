"""Calibrators as naive loops and direct minimisation, in float64."""

import itertools

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax


def nll(logits: np.ndarray, target: np.ndarray) -> float:
    return float(-log_softmax(logits, axis=1)[np.arange(len(target)), target].mean())


def vector_scaling(logits: np.ndarray, target: np.ndarray) -> float:
    """Least NLL over scales and biases, by a simplex search polished with differences: no gradient of ours is used."""
    classes = logits.shape[1]

    def objective(x: np.ndarray) -> float:
        return nll(logits * x[:classes] + x[classes:], target)

    start = np.concatenate([np.ones(classes), np.zeros(classes)])
    rough = minimize(objective, start, method="Powell", options={"maxiter": 200})
    return float(minimize(objective, rough.x, method="BFGS", options={"gtol": 1e-7}).fun)


def ensemble_on_a_grid(logits: np.ndarray, target: np.ndarray, temperature: float, steps: int) -> float:
    """Least NLL over mixtures whose weights are multiples of 1/steps."""
    rows = np.arange(len(target))
    scaled, raw = softmax(logits / temperature, axis=1)[rows, target], softmax(logits, axis=1)[rows, target]
    values = []
    for first, second in itertools.product(range(steps + 1), repeat=2):
        third = steps - first - second
        if third >= 0:
            mixture = (first * scaled + second * raw + third / logits.shape[1]) / steps
            with np.errstate(divide="ignore"):
                values.append(-np.log(mixture).mean())
    return float(min(values))


def isotonic_values(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Least-squares monotone fit at distinct x: the largest over starts of the least over ends of the mean between them."""
    order = np.argsort(x)
    ranked = y[order]
    count = len(x)
    fitted = np.empty(count)
    for i in range(count):
        fitted[order[i]] = max(min(ranked[a : b + 1].mean() for b in range(i, count)) for a in range(i + 1))
    return fitted


def isotonic_probabilities(logits: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Every class against the rest, one sample's weight of 1/K mixed in, normalised."""
    probs = softmax(logits, axis=1)
    samples, classes = probs.shape
    columns = [isotonic_values(probs[:, k], (target == k).astype(float)) for k in range(classes)]
    mixed = (samples * np.stack(columns, axis=1) + 1 / classes) / (samples + 1)
    return mixed / mixed.sum(axis=1, keepdims=True)


def histogram_confidences(logits: np.ndarray, target: np.ndarray, num_bins: int) -> np.ndarray:
    """Confidence of each prediction after equal-mass binning; confidences must differ."""
    probs = softmax(logits, axis=1)
    samples, classes = probs.shape
    order = sorted(range(samples), key=lambda i: probs[i].max())
    ends = [round(step * samples / num_bins) for step in range(num_bins + 1)]
    confidences = np.empty(samples)
    for start, end in itertools.pairwise(ends):
        members = order[start:end]
        right = sum(probs[i].argmax() == target[i] for i in members)
        for i in members:
            top = probs[i].argmax()
            rest = np.delete(probs[i], top)
            runner_up = rest.max() / rest.sum()
            confidences[i] = max((right + 1 / classes) / (len(members) + 1), runner_up / (1 + runner_up) + 1e-6)
    return confidences
