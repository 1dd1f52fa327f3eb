"""CRL: confidence in the order in which samples were classified correctly so far (Moon et al., 2020)."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, distributed, nn
from torch.nn import functional as F

from rankmixup import ops
from rankmixup.errors import InvalidInput, require, require_number, require_whole
from rankmixup.methods.base import Method, register
from rankmixup.ops import Logits, Loss, PerSample, Reduction, Target
from rankmixup.types import Batch, Context, StepOutput, call_model


def crl_loss(logits: Logits, target: Target, correctness: PerSample, *, weight: float = 1.0, reduction: Reduction = "mean") -> Loss:
    """Cross-entropy plus `weight` times the correctness ranking loss, over pairs of each sample and the next one in the batch.

    With confidences p and normalised histories c (`correctness`, a constant), a sample i and its neighbour j cost
    `max(0, |c_i - c_j| - sign(c_i - c_j) (p_i - p_j))`, which is 0 for equal histories; the last sample's neighbour is the first.

    >>> logits = torch.tensor([[0.0, 0.0], [0.0, 1.0986123]])  # confidences 1/2 and 3/4
    >>> target, correctness = torch.tensor([0, 1]), torch.tensor([1.0, 0.5])
    >>> (crl_loss(logits, target, correctness) - F.cross_entropy(logits, target)).item()  # 0.5 + 0.25 for both
    0.75
    """
    require_number("weight", weight, least=0)
    logits, target = ops.check_batch(logits, target)
    correctness = ops.check_floats("correctness", correctness, logits)
    unlike = f"correctness must hold one number per row of logits, got shapes {list(correctness.shape)} and {list(logits.shape)}"
    require(correctness.shape == target.shape, unlike)
    return ops.reduce(F.cross_entropy(logits, target, reduction="none") + weight * _ranking(logits, correctness), reduction)


def _ranking(logits: Float[Tensor, "B K"], correctness: Float[Tensor, " B"]) -> Float[Tensor, " B"]:
    own = ops.confidence(ops.upcast(logits))
    order = (correctness - correctness.roll(-1)).detach().to(own.dtype)
    return torch.relu(order.abs() - order.sign() * (own - own.roll(-1)))


class CorrectnessHistory(nn.Module):
    """How often each training sample was visited and how often it was then classified correctly.

    The counts of all processes are summed in every step (8 bytes for each training sample). So all of them always hold the same
    history, however samples move between them, and one process's checkpoint is everybody's. As under DDP itself, every
    process must take the same number of steps.
    """

    correct: Tensor
    visits: Tensor

    def __init__(self, dataset_size: int):
        super().__init__()
        dataset_size = require_whole("dataset_size", dataset_size, least=1)
        for name in ("correct", "visits"):
            self.register_buffer(name, torch.zeros(dataset_size, dtype=torch.long))

    def normalised(self, index: Int[Tensor, " B"], epoch: int = 0) -> Float[Tensor, " B"]:
        """(C - min C) / (E - min C), the minimum over the whole training set, E the passes already made, at least 1.

        E is `epoch` (the first is 0), or the visits to these samples where there were more: a loop need not count epochs, a
        sampler may repeat samples, and the result stays in [0, 1]. While every count equals E, it is 0.
        """
        lowest = self.correct.min()
        passes = self.visits[index].max().clamp(min=max(1, epoch))
        return (self.correct[index] - lowest) / (passes - lowest).clamp(min=1)

    def update(self, index: Int[Tensor, " B"], correct: Bool[Tensor, " B"]) -> None:
        """Count one visit to each sample of the batch, on every process."""
        # Built where the logits are, since a process group may serve only that kind of device.
        news = torch.zeros(2, len(self.correct), dtype=torch.int32, device=correct.device)
        news.index_add_(1, index.to(correct.device), torch.stack([correct, torch.ones_like(correct)]).int())
        if distributed.is_available() and distributed.is_initialized():
            distributed.all_reduce(news)
        news = news.to(self.correct.device)
        self.correct += news[0]
        self.visits += news[1]


@register("crl")
@dataclass(frozen=True)
class CRL(Method):
    """Cross-entropy plus a ranking of confidences by how often samples were classified correctly.

    Needs `dataset_size` and, in every step, the `index` of each sample within the training set. Weight 1 is the supplement's
    and the release's value; the count behind the ranking is updated after each step, on the augmented samples it was given.

    **Deviation:** the history has one entry for each sample of the training split; an array over the whole data set, as in the
    release, keeps zeros for the validation samples and with them its minimum at 0. Where the release divides by zero (every
    sample always correct) the normalised history is 0. The release runs in one process; here all processes share one history.
    """

    nonnegative = ("weight",)
    needs = ("index",)

    weight: float = 1.0
    """Weight of the ranking term (the supplement's)."""

    def initial_state(self, *, num_classes: int, dataset_size: int | None) -> CorrectnessHistory:
        if dataset_size is None:
            raise InvalidInput("crl keeps a history of every training sample: dataset_size must be given, got None")
        return CorrectnessHistory(dataset_size)

    def __call__(self, model: nn.Module, batch: Batch, ctx: Context) -> StepOutput:
        history = ctx.state
        if not isinstance(history, CorrectnessHistory):
            raise InvalidInput(f"crl needs the history that its initial_state makes as the state of the step, got {type(history).__name__}")
        if batch.index is None:
            raise InvalidInput("crl needs the position of each sample in the training set: index must be given with every batch, got None")
        index = ops.check_indices("index", batch.index, len(history.correct))
        require(not index.is_meta or history.correct.is_meta, "index must hold values, got a tensor on the meta device")
        unlike = f"index must hold one position per sample, got shapes {list(index.shape)} and {list(batch.y.shape)}"
        require(index.shape == batch.y.shape, unlike)
        index = index.to(history.correct.device)
        logits = ops.check_logits(call_model(model, batch.x), rows=len(batch.y))
        correctness = history.normalised(index, ctx.epoch).to(logits.device)
        loss = crl_loss(logits, batch.y, correctness, weight=self.weight)
        history.update(index, logits.argmax(dim=1) == batch.y)
        ranking = _ranking(logits.detach(), correctness).mean()
        return StepOutput(loss, logits, {"ce": loss.detach() - self.weight * ranking, "ranking": ranking})
