"""Logits of a whole split, exact over any number of processes."""

import torch
from jaxtyping import Float, Int
from lightning_fabric import Fabric
from torch import Tensor, nn

from rankmixup.metrics.ranking import fold_lambda
from rankmixup.mixers import mixup
from rankmixup.random import stream

__all__ = ["predict", "predict_mixed"]

_CHUNK = 512


@torch.no_grad()
def predict(fabric: Fabric, model: nn.Module, x: Float[Tensor, "N C H W"]) -> Float[Tensor, "N K"]:
    """Logits of `x` in evaluation mode, on the CPU in float32; each process forwards its share, none is padded or counted twice."""
    if fabric.world_size > 1:
        # Each process has gathered BatchNorm statistics of its own since DDP last made them the first one's, which is what is saved.
        for buffer in model.buffers():
            torch.distributed.broadcast(buffer, 0)
    was_training = model.training
    model.eval()
    mine = x[fabric.global_rank :: fabric.world_size]
    parts = [model(part.to(fabric.device)).float().cpu() for part in mine.split(_CHUNK)]
    model.train(was_training)
    if fabric.world_size == 1:
        return torch.cat(parts)
    gathered: list[Tensor] = [torch.empty(0)] * fabric.world_size
    torch.distributed.all_gather_object(gathered, torch.cat(parts))
    logits = gathered[0].new_empty(len(x), gathered[0].shape[1])
    for rank, part in enumerate(gathered):
        logits[rank :: fabric.world_size] = part
    return logits


def predict_mixed(
    fabric: Fabric, model: nn.Module, x: Float[Tensor, "N C H W"], y: Int[Tensor, " N"], seed: int
) -> tuple[Float[Tensor, "M K"], Float[Tensor, " M"]]:
    """Logits of one mix of each sample with another class's, and its folded lambda: what the paper's hypothesis is about.

    lambda is uniform, whatever the method trained with, so that methods can be compared.
    """
    rng = stream(seed, "mixed predictions")
    lam = torch.rand(len(x), generator=rng)
    partner = torch.randperm(len(x), generator=rng)
    other = y[partner] != y
    return predict(fabric, model, mixup(x, lam, partner)[other]), fold_lambda(lam[other])
