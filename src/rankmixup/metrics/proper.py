"""Accuracy and proper scores."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rankmixup.errors import require, require_whole
from rankmixup.metrics.inputs import over_rows
from rankmixup.ops import as_tensor

__all__ = ["accuracy", "brier_per_sample", "brier_score", "negative_log_likelihood", "nll_per_sample", "right_within"]


def accuracy(probs: Float[Tensor, "N K"], target: Int[Tensor, " N"], *, from_logits: bool = False, top_k: int = 1) -> Float[Tensor, ""]:
    """Share of samples whose right class is the most probable one, or among the `top_k` most probable; of equals the first counts.

    >>> accuracy(torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([0, 1]))
    tensor(0.5000, dtype=torch.float64)
    """
    return right_within(probs, target, top_k, from_logits=from_logits).double().mean()


def right_within(probs: Float[Tensor, "N K"], target: Int[Tensor, " N"], top_k: int, *, from_logits: bool) -> Bool[Tensor, " N"]:
    """Whether each sample's right class is among the `top_k` most probable."""
    require_whole("top_k", top_k, least=1)
    probs = as_tensor("scores", probs)
    classes = probs.shape[1] if probs.ndim == 2 else top_k
    require(top_k <= classes, f"top_k must be at most the number of classes, {classes}, got {top_k}")
    return torch.cat(over_rows(lambda rows: rows.right_within(top_k), probs, target, from_logits=from_logits))


def negative_log_likelihood(probs: Float[Tensor, "N K"], target: Int[Tensor, " N"], *, from_logits: bool = False) -> Float[Tensor, ""]:
    """Mean of -log(probability of the right class), in nats; infinite where that probability is 0.

    >>> negative_log_likelihood(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([0, 0]))  # ln(2) / 2
    tensor(0.3466, dtype=torch.float64)
    """
    return nll_per_sample(probs, target, from_logits=from_logits).mean()


def nll_per_sample(probs: Float[Tensor, "N K"], target: Int[Tensor, " N"], *, from_logits: bool) -> Float[Tensor, " N"]:
    """-log(probability of the right class) of each sample."""
    return torch.cat(over_rows(lambda rows: rows.nll, probs, target, from_logits=from_logits))


def brier_score(probs: Float[Tensor, "N K"], target: Int[Tensor, " N"], *, from_logits: bool = False) -> Float[Tensor, ""]:
    """Mean squared distance between the probabilities and the one-hot label, summed over classes (0 to 2).

    >>> brier_score(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([0, 0]))  # (0.25 + 0.25 + 0) / 2
    tensor(0.2500, dtype=torch.float64)
    """
    return brier_per_sample(probs, target, from_logits=from_logits).mean()


def brier_per_sample(probs: Float[Tensor, "N K"], target: Int[Tensor, " N"], *, from_logits: bool) -> Float[Tensor, " N"]:
    """Squared distance from the one-hot label of each sample."""
    return torch.cat(over_rows(lambda rows: rows.brier, probs, target, from_logits=from_logits))
