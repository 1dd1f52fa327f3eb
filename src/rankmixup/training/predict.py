"""Logits of a whole split, exact over any number of processes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from lightning_fabric import Fabric
from torch import Tensor, nn

from rankmixup.data import Split, View, evaluation_batches
from rankmixup.metrics.ranking import fold_lambda
from rankmixup.random import stream
from rankmixup.training.processes import gather
from rankmixup.types import evaluating


@dataclass(frozen=True)
class Predictor:
    """Forwards samples in evaluation mode. Logits are on the CPU in float32; each process forwards its share, none is counted twice."""

    fabric: Fabric
    model: nn.Module
    view: View
    workers: int | None = None

    def predict(self, split: Split) -> Float[Tensor, "N K"]:
        """Logits of each sample."""
        return self._forward(self._inputs(split), len(split))

    def predict_mixed(self, split: Split, seed: int) -> tuple[Float[Tensor, "M K"], Float[Tensor, " M"]]:
        """Logits of one mix of each sample with another class's, and its folded lambda: what the paper's hypothesis is about.

        lambda is uniform, whatever the method trained with, so that methods can be compared.
        """
        rng = stream(seed, "mixed predictions")
        lam = torch.rand(len(split), generator=rng)
        partner = torch.randperm(len(split), generator=rng)
        other = (split.y[partner] != split.y).nonzero().squeeze(1)
        if len(other) == 0:  # as with a few samples of one class
            return self.predict(split)[:0], lam[:0]
        lam, partner = lam[other], partner[other]
        return self.predict_mixes(split[other], split[partner], lam), fold_lambda(lam)

    def predict_mixes(self, own: Split, others: Split, lam: Float[Tensor, " N"]) -> Float[Tensor, "N K"]:
        """Logits of lam x own + (1 - lam) x other for each pair of samples."""

        def mixes() -> Iterator[Tensor]:
            weights = lam[self.fabric.global_rank :: self.fabric.world_size].to(self.fabric.device)
            for x, other in zip(self._inputs(own), self._inputs(others), strict=True):
                yield torch.lerp(other, x, weights[: len(x)].view(-1, *[1] * (x.ndim - 1)))
                weights = weights[len(x) :]

        return self._forward(mixes(), len(lam))

    @property
    def share(self) -> dict[str, Any]:
        """Which samples this process takes, and how, as the functions of `rankmixup.data` that make batches call it."""
        fabric = self.fabric
        return {"rank": fabric.global_rank, "world_size": fabric.world_size, "device": fabric.device, "workers": self.workers}

    def _inputs(self, split: Split) -> Iterator[Tensor]:
        return evaluation_batches(split, self.view, **self.share)

    @torch.no_grad()
    def _forward(self, batches: Iterable[Tensor], size: int) -> Float[Tensor, "N K"]:
        """Logits of all `size` samples, of which `batches` are this process's."""
        if self.fabric.world_size > 1:
            # Each process has gathered BatchNorm statistics of its own since DDP last made them the first one's, which is what is saved.
            for buffer in self.model.buffers():
                torch.distributed.broadcast(buffer, 0)
        with evaluating(self.model):
            own = torch.cat([self.model(batch).float().cpu() for batch in batches])
        logits = own.new_empty(size, own.shape[1])
        for rank, part in enumerate(gather(self.fabric, own)):
            logits[rank :: self.fabric.world_size] = part
        return logits
