"""Accuracy and proper scores."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rankmixup.errors import require, require_whole
from rankmixup.metrics.inputs import over_rows
from rankmixup.ops import as_tensor

__all__ = ["accuracy", "brier_per_sample", "brier_score", "negative_log_likelihood", "nll_per_sample", "right_within"]


def accuracy(logits: Float[Tensor, "N K"], target: Int[Tensor, " N"], *, from_logits: bool = True, top_k: int = 1) -> Float[Tensor, ""]:
    """Share of samples whose right class is the most probable one, or among the `top_k` most probable; of equals the first counts.

    >>> accuracy(torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([0, 1]), from_logits=False)
    tensor(0.5000, dtype=torch.float64)
    """
    return right_within(logits, target, top_k, from_logits=from_logits).double().mean()


def right_within(logits: Float[Tensor, "N K"], target: Int[Tensor, " N"], top_k: int, *, from_logits: bool) -> Bool[Tensor, " N"]:
    """Whether each sample's right class is among the `top_k` most probable."""
    require_whole("top_k", top_k, least=1)
    logits = as_tensor("logits", logits)
    classes = logits.shape[1] if logits.ndim == 2 else top_k
    require(top_k <= classes, f"top_k must be at most the number of classes, {classes}, got {top_k}")
    return torch.cat(over_rows(lambda rows: rows.right_within(top_k), logits, target, from_logits=from_logits))


def negative_log_likelihood(logits: Float[Tensor, "N K"], target: Int[Tensor, " N"], *, from_logits: bool = True) -> Float[Tensor, ""]:
    """Mean of -log(probability of the right class), in nats; infinite where that probability is 0.

    >>> negative_log_likelihood(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([0, 0]), from_logits=False)  # ln(2) / 2
    tensor(0.3466, dtype=torch.float64)
    """
    return nll_per_sample(logits, target, from_logits=from_logits).mean()


def nll_per_sample(logits: Float[Tensor, "N K"], target: Int[Tensor, " N"], *, from_logits: bool) -> Float[Tensor, " N"]:
    """-log(probability of the right class) of each sample."""
    return torch.cat(over_rows(lambda rows: rows.nll, logits, target, from_logits=from_logits))


def brier_score(logits: Float[Tensor, "N K"], target: Int[Tensor, " N"], *, from_logits: bool = True) -> Float[Tensor, ""]:
    """Mean squared distance between the probabilities and the one-hot label, summed over classes (0 to 2).

    >>> brier_score(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([0, 0]), from_logits=False)  # (0.25 + 0.25 + 0) / 2
    tensor(0.2500, dtype=torch.float64)
    """
    return brier_per_sample(logits, target, from_logits=from_logits).mean()


def brier_per_sample(logits: Float[Tensor, "N K"], target: Int[Tensor, " N"], *, from_logits: bool) -> Float[Tensor, " N"]:
    """Squared distance from the one-hot label of each sample."""
    return torch.cat(over_rows(lambda rows: rows.brier, logits, target, from_logits=from_logits))
