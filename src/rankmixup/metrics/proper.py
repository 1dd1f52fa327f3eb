"""Accuracy and proper scores."""

from torch import Tensor

from rankmixup.errors import require, require_whole
from rankmixup.metrics.inputs import Logits, Scalar, Target, per_sample
from rankmixup.metrics.rows import Rows


def accuracy(logits: Logits, target: Target, *, from_logits: bool = True, top_k: int = 1) -> Scalar:
    """Share of samples whose right class is the most probable one, or among the `top_k` most probable; of equals the first counts.

    >>> accuracy([[0.9, 0.1], [0.6, 0.4]], [0, 1], from_logits=False)
    tensor(0.5000, dtype=torch.float64)
    """
    require_whole("top_k", top_k, least=1)
    return per_sample(lambda rows: right_within(rows, top_k), logits, target, from_logits).mean()


def negative_log_likelihood(logits: Logits, target: Target, *, from_logits: bool = True) -> Scalar:
    """Mean of -log(probability of the right class), in nats; infinite where that probability is 0.

    >>> negative_log_likelihood([[0.5, 0.5], [1.0, 0.0]], [0, 0], from_logits=False)  # ln(2) / 2
    tensor(0.3466, dtype=torch.float64)
    """
    return per_sample(lambda rows: rows.nll, logits, target, from_logits).mean()


def brier_score(logits: Logits, target: Target, *, from_logits: bool = True) -> Scalar:
    """Mean squared distance between the probabilities and the one-hot label, summed over classes (0 to 2).

    >>> brier_score([[0.5, 0.5], [1.0, 0.0]], [0, 0], from_logits=False)  # (0.25 + 0.25 + 0) / 2
    tensor(0.2500, dtype=torch.float64)
    """
    return per_sample(lambda rows: rows.brier, logits, target, from_logits).mean()


def right_within(rows: Rows, top_k: int) -> Tensor:
    """Whether the right class of each row is among the `top_k` most probable."""
    classes = rows.scores.shape[1]
    require(top_k <= classes, f"top_k must be at most the number of classes, {classes}, got {top_k}")
    return rows.right_within(top_k)
