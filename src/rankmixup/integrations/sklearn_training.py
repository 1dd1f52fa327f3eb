"""Training in memory for the scikit-learn estimator: no run directory, one process, early stopping on held-out samples."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from rankmixup import random
from rankmixup.data.splits import stratified_hold_out
from rankmixup.errors import WorkFailed, require
from rankmixup.methods import Method, Objective
from rankmixup.models.own import evaluated_parts, train_all_but
from rankmixup.posthoc import Calibrator
from rankmixup.posthoc.base import PARTS
from rankmixup.types import evaluating

_ROWS = 4096
"""Samples that are forwarded at once where no gradient is needed."""
_HELD_OUT = "held-out samples"


class Schedule(NamedTuple):
    """How long and how fast to train."""

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    patience: int
    """Epochs without a lower NLL of the held-out samples after which training ends."""


@dataclass
class History:
    """What happened in each epoch, and what was selected."""

    loss: list[float] = field(default_factory=list)
    """Mean training loss of each epoch."""
    nll: list[float] = field(default_factory=list)
    """NLL of the held-out samples after each epoch; empty if there are none."""
    method: Method | None = None
    """The method in the selected epoch, with a number in the place of every "auto"."""
    dials: dict[str, float] | None = None
    """These numbers."""


def hold_out(y: Int[Tensor, " N"], share: float, seed: int) -> tuple[Int[Tensor, " R"], Int[Tensor, " H"]]:
    """Positions of the samples that remain for training, and of those held out: about this share of each class.

    At least one sample of each class is held out, unless it is the only one: every class is trained.
    """
    sizes = torch.bincount(y).tolist()
    counts = [min(max(round(share * size), 1), size - 1) for size in sizes] if share > 0 else [0] * len(sizes)
    return stratified_hold_out(y, counts, f"estimator {seed}")


def drawn(weight: Float[Tensor, " N"], start: float = 0.5) -> Int[Tensor, " N"]:
    """Positions of N of N samples, each as often as its weight says, give or take one: with equal weights, each once.

    >>> drawn(torch.tensor([1.0, 2.0, 1.0, 0.0]))
    tensor([0, 1, 1, 2])
    """
    ends = weight.cumsum(0)
    places = (torch.arange(len(weight), dtype=torch.float64) + start) * (ends[-1:] / len(weight))
    return torch.searchsorted(ends, places, right=True).clamp(max=len(weight) - 1)


def predict_logits(network: nn.Module, x: Float[Tensor, "N ..."]) -> Float[Tensor, "N K"]:
    """Logits in evaluation mode."""
    with torch.no_grad(), evaluating(network):
        return torch.cat([network(rows) for rows in x.split(_ROWS)])


def train_network(
    network: nn.Module,
    step: Objective,
    train: tuple[Tensor, Tensor],
    weight: Tensor,
    held: tuple[Tensor, Tensor],
    schedule: Schedule,
    seed: int,
    report: Callable[[str], None] | None = None,
) -> History:
    """Train by AdamW until the NLL of the held-out samples no longer falls, and go back to the epoch in which it was lowest.

    Without held-out samples all epochs are trained and the last is kept. Torch's global generator, which dropout draws from, is left as it
    was.
    """
    (x, y), (held_x, held_y), history = train, held, History(method=step.method)
    epochs, batch_size, learning_rate, weight_decay, patience = schedule
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    require(len(trained) > 0, "network must have parameters to train, got none")
    optimiser = torch.optim.AdamW(trained, learning_rate, weight_decay=weight_decay)
    evaluated = evaluated_parts(network)
    order, starts, best, selected = random.stream(seed, "order"), random.stream(seed, "weights"), math.inf, None
    with random.global_seed(seed, "training"):
        for epoch in range(epochs):
            step.epoch = epoch
            train_all_but(network, evaluated)
            seen = drawn(weight, torch.rand((), generator=starts).item())[torch.randperm(len(y), generator=order)]
            history.loss.append(_train_epoch(network, step, x, y, optimiser, seen, batch_size))
            message = f"epoch {epoch + 1}: loss {history.loss[-1]:.4f}"
            if len(held_y) > 0:
                logits, active, dials = predict_logits(network, held_x), step.active, step.dials
                history.nll.append(F.cross_entropy(logits.cpu().double(), held_y.cpu()).item())  # some devices have no float64
                message += f", held-out NLL {history.nll[-1]:.4f}"
            if not all(math.isfinite(each[-1]) for each in (history.loss, history.nll) if each):
                raise WorkFailed(f"the loss must stay finite, got another number in epoch {epoch + 1}; try a lower learning_rate")
            if report is not None:
                report(message)
            if len(held_y) == 0:
                continue
            step.tune(logits, held_y)
            if history.nll[-1] < best:
                best, selected = history.nll[-1], copy.deepcopy(network.state_dict())
                history.method, history.dials = active, dials
            elif len(history.nll) - history.nll.index(best) > patience:
                break
    if selected is not None:
        network.load_state_dict(selected)
    return history


def _train_epoch(
    network: nn.Module,
    step: Objective,
    x: Tensor,
    y: Tensor,
    optimiser: torch.optim.Optimizer,
    order: Int[Tensor, " N"],
    batch_size: int,
) -> float:
    """Mean loss of an epoch. Batches are of equal size, so that none is left with one sample, which could not be mixed or normalised."""
    total = torch.zeros((), device=x.device)
    for index in order.to(x.device).tensor_split(math.ceil(len(order) / batch_size)):
        loss = step(network, x[index], y[index], index).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        total += len(index) * loss.detach()
    return total.item() / len(order)


def useful_calibrator(
    kind: type[Calibrator], logits: Float[Tensor, "N K"], target: Int[Tensor, " N"], copies: Int[Tensor, " N"]
) -> Calibrator | None:
    """A calibrator fitted to held-out samples, or None if they do not show that it helps.

    It helps if its fit converged and it lowers the NLL of samples that it was not fitted to, each of five parts in turn; rows of one
    number in `copies` are the same sample, and in one part. Of a few samples,
    all classified correctly, the likelihood is highest at probabilities of 1, whatever the network will get wrong later.
    """
    if len(target) < PARTS:
        return None
    calibrator = kind().fit(logits, target, split=_HELD_OUT, warn=False)
    unfitted = calibrator.unfitted_nll(logits, target, copies % PARTS)
    helps = calibrator.report_.converged and unfitted < calibrator.report_.before["nll"]
    return calibrator if helps else None
