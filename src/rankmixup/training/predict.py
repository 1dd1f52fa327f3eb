"""Logits of a whole split, exact over any number of processes."""

from collections.abc import Iterable, Iterator

import torch
from jaxtyping import Float
from lightning_fabric import Fabric
from torch import Tensor, nn

from rankmixup.data import Dataset, Split, View, evaluation_batches
from rankmixup.evaluation import Scores
from rankmixup.metrics.ranking import fold_lambda
from rankmixup.random import stream
from rankmixup.runs import StoredRun


def predict(fabric: Fabric, model: nn.Module, split: Split, view: View, *, workers: int | None = None) -> Float[Tensor, "N K"]:
    """Logits in evaluation mode, on the CPU in float32; each process forwards its share, none is padded or counted twice."""
    return _forwarded(fabric, model, _inputs(fabric, split, view, workers), len(split))


def predict_mixed(
    fabric: Fabric, model: nn.Module, split: Split, view: View, seed: int, *, workers: int | None = None
) -> tuple[Float[Tensor, "M K"], Float[Tensor, " M"]]:
    """Logits of one mix of each sample with another class's, and its folded lambda: what the paper's hypothesis is about.

    lambda is uniform, whatever the method trained with, so that methods can be compared.
    """
    rng = stream(seed, "mixed predictions")
    lam = torch.rand(len(split), generator=rng)
    partner = torch.randperm(len(split), generator=rng)
    other = (split.y[partner] != split.y).nonzero().squeeze(1)
    if len(other) == 0:  # as with a few samples of one class
        return predict(fabric, model, split, view, workers=workers)[:0], lam[:0]
    lam, partner = lam[other], partner[other]
    return predict_mixes(fabric, model, split[other], split[partner], lam, view, workers=workers), fold_lambda(lam)


def predict_mixes(
    fabric: Fabric, model: nn.Module, own: Split, others: Split, lam: Float[Tensor, " N"], view: View, *, workers: int | None = None
) -> Float[Tensor, "N K"]:
    """Logits of lam x own + (1 - lam) x other for each pair of samples."""
    inputs, other_inputs = (_inputs(fabric, split, view, workers) for split in (own, others))
    weights = lam[fabric.global_rank :: fabric.world_size].to(fabric.device)
    return _forwarded(fabric, model, _mixes(inputs, other_inputs, weights), len(lam))


def store_predictions(fabric: Fabric, model: nn.Module, dataset: Dataset, store: StoredRun, *, workers: int | None = None) -> None:
    """Forward validation and test samples, and mixes of test samples; the first process writes their logits."""
    for name, split in (("val", dataset.val), ("test", dataset.test)):
        scores = Scores(predict(fabric, model, split, dataset.view, workers=workers), split.y)
        if fabric.is_global_zero:
            store.write_predictions(name, logits=scores.scores.numpy(), labels=scores.labels.numpy(), index=split.index.numpy())
    logits, lam = predict_mixed(fabric, model, dataset.test, dataset.view, store.run.seed, workers=workers)
    if fabric.is_global_zero:
        store.write_predictions("mixed", logits=logits.numpy(), lam=lam.numpy())


def _inputs(fabric: Fabric, split: Split, view: View, workers: int | None) -> Iterator[Tensor]:
    """This process's share."""
    return evaluation_batches(split, view, rank=fabric.global_rank, world_size=fabric.world_size, device=fabric.device, workers=workers)


def _mixes(own: Iterable[Tensor], others: Iterable[Tensor], lam: Float[Tensor, " M"]) -> Iterable[Tensor]:
    done = 0
    for x, other in zip(own, others, strict=True):
        yield torch.lerp(other, x, lam[done : done + len(x)].view(-1, 1, 1, 1))
        done += len(x)


@torch.no_grad()
def _forwarded(fabric: Fabric, model: nn.Module, batches: Iterable[Tensor], size: int) -> Float[Tensor, "N K"]:
    """Logits of all `size` samples, of which `batches` are this process's: every `world_size`-th."""
    if fabric.world_size > 1:
        # Each process has gathered BatchNorm statistics of its own since DDP last made them the first one's, which is what is saved.
        for buffer in model.buffers():
            torch.distributed.broadcast(buffer, 0)
    was_training = model.training
    model.eval()
    parts = [model(batch).float().cpu() for batch in batches]
    model.train(was_training)
    if fabric.world_size == 1:
        return torch.cat(parts)
    gathered: list[Tensor] = [torch.empty(0)] * fabric.world_size
    torch.distributed.all_gather_object(gathered, torch.cat(parts))
    logits = gathered[0].new_empty(size, gathered[0].shape[1])
    for rank, part in enumerate(gathered):
        logits[rank :: fabric.world_size] = part
    return logits
