"""Accuracy and proper scores."""

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from rankmixup.metrics.inputs import check_scores, probabilities, top_label

__all__ = ["accuracy", "brier_score", "negative_log_likelihood", "nll_per_sample"]


def accuracy(probs: Float[Tensor, "N K"], target: Int[Tensor, " N"], *, from_logits: bool = False) -> Float[Tensor, ""]:
    """Share of samples whose most probable class is the right one.

    >>> import torch
    >>> accuracy(torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([0, 1]))
    tensor(0.5000, dtype=torch.float64)
    """
    return top_label(probs, target, from_logits=from_logits)[1].double().mean()


def negative_log_likelihood(probs: Float[Tensor, "N K"], target: Int[Tensor, " N"], *, from_logits: bool = False) -> Float[Tensor, ""]:
    """Mean of -log(probability of the right class), in nats; infinite where that probability is 0.

    >>> import torch
    >>> negative_log_likelihood(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([0, 0]))  # ln(2) / 2
    tensor(0.3466, dtype=torch.float64)
    """
    return nll_per_sample(probs, target, from_logits=from_logits).double().mean()


def nll_per_sample(probs: Float[Tensor, "N K"], target: Int[Tensor, " N"], *, from_logits: bool) -> Float[Tensor, " N"]:
    """-log(probability of the right class) of each sample."""
    if from_logits:
        check_scores(probs, target, from_logits=True)
        return F.cross_entropy(probs.double(), target.long(), reduction="none")
    return -probabilities(probs, target, from_logits=False).double().gather(1, target.long().unsqueeze(1)).squeeze(1).log()


def brier_score(probs: Float[Tensor, "N K"], target: Int[Tensor, " N"], *, from_logits: bool = False) -> Float[Tensor, ""]:
    """Mean squared distance between the probabilities and the one-hot label, summed over classes (0 to 2).

    >>> import torch
    >>> brier_score(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([0, 0]))  # (0.25 + 0.25 + 0) / 2
    tensor(0.2500, dtype=torch.float64)
    """
    probs = probabilities(probs, target, from_logits=from_logits).double()
    return (probs - F.one_hot(target.long(), probs.shape[1])).square().sum(dim=1).mean()
