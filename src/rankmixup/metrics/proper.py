"""Accuracy and proper scores."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rankmixup.errors import require, require_whole
from rankmixup.metrics.inputs import Logits, Scalar, Target, over_rows
from rankmixup.metrics.rows import Rows

__all__ = ["accuracy", "brier_per_sample", "brier_score", "negative_log_likelihood", "nll_per_sample", "right_within"]


def accuracy(logits: Logits, target: Target, *, from_logits: bool = True, top_k: int = 1) -> Scalar:
    """Share of samples whose right class is the most probable one, or among the `top_k` most probable; of equals the first counts.

    >>> accuracy(torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([0, 1]), from_logits=False)
    tensor(0.5000, dtype=torch.float64)
    """
    return right_within(logits, target, top_k, from_logits=from_logits).double().mean()


def right_within(logits: Logits, target: Target, top_k: int, *, from_logits: bool) -> Bool[Tensor, " N"]:
    """Whether each sample's right class is among the `top_k` most probable."""
    require_whole("top_k", top_k, least=1)

    def right(rows: Rows) -> Tensor:
        classes = rows.scores.shape[1]
        require(top_k <= classes, f"top_k must be at most the number of classes, {classes}, got {top_k}")
        return rows.right_within(top_k)

    return torch.cat(over_rows(right, logits, target, from_logits=from_logits))


def negative_log_likelihood(logits: Logits, target: Target, *, from_logits: bool = True) -> Scalar:
    """Mean of -log(probability of the right class), in nats; infinite where that probability is 0.

    >>> negative_log_likelihood(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([0, 0]), from_logits=False)  # ln(2) / 2
    tensor(0.3466, dtype=torch.float64)
    """
    return nll_per_sample(logits, target, from_logits=from_logits).mean()


def nll_per_sample(logits: Logits, target: Target, *, from_logits: bool) -> Float[Tensor, " N"]:
    """-log(probability of the right class) of each sample."""
    return torch.cat(over_rows(lambda rows: rows.nll, logits, target, from_logits=from_logits))


def brier_score(logits: Logits, target: Target, *, from_logits: bool = True) -> Scalar:
    """Mean squared distance between the probabilities and the one-hot label, summed over classes (0 to 2).

    >>> brier_score(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([0, 0]), from_logits=False)  # (0.25 + 0.25 + 0) / 2
    tensor(0.2500, dtype=torch.float64)
    """
    return brier_per_sample(logits, target, from_logits=from_logits).mean()


def brier_per_sample(logits: Logits, target: Target, *, from_logits: bool) -> Float[Tensor, " N"]:
    """Squared distance from the one-hot label of each sample."""
    return torch.cat(over_rows(lambda rows: rows.brier, logits, target, from_logits=from_logits))
