"""One update of the weights."""

from lightning_fabric import Fabric
from lightning_fabric.wrappers import _FabricModule, _FabricOptimizer
from torch import Tensor

from rankmixup.errors import WorkFailed
from rankmixup.runs import Optimisation
from rankmixup.types import Batch


def update(
    fabric: Fabric, step: _FabricModule, optimiser: _FabricOptimizer, batch: Batch, total: int, optimisation: Optimisation
) -> dict[str, Tensor]:
    """Forward, backward, clip and step on this process's share of a batch of `total` samples; its loss and its terms.

    Every sample counts the same, however unevenly parts and processes have divided the batch.
    """
    optimiser.zero_grad()
    terms: dict[str, Tensor] = {}
    count = min(optimisation.accumulate, len(batch.y))  # a last, small batch may have fewer samples than parts
    columns = ([None] * count if column is None else column.tensor_split(count) for column in (batch.x, batch.y, batch.index))
    parts = [Batch(*part) for part in zip(*columns, strict=True)]
    for done, part in enumerate(parts, start=1):
        with fabric.no_backward_sync(step, enabled=done < len(parts)):
            output = step(part.x, part.y, part.index)
            # The gradients of several processes are averaged.
            fabric.backward(output.loss * (len(part.y) * fabric.world_size / total))
        share = len(part.y) / len(batch.y)
        for name, value in {"loss": output.loss.detach(), **output.terms}.items():
            terms[name] = share * value + terms.get(name, 0.0)
    if optimisation.clip > 0:
        fabric.clip_gradients(step, optimiser, max_norm=optimisation.clip, error_if_nonfinite=False)
    try:
        optimiser.step()
    except RuntimeError as error:
        if "without overflow" not in str(error):
            raise
        lr = optimiser.param_groups[0]["lr"]
        raise WorkFailed(f"lr and weight_decay must be numbers of float32, got {lr:g} and {optimisation.weight_decay:g}") from error
    return terms
