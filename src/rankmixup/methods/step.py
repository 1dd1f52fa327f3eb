"""A method made ready for a loop: it holds the random stream and the state, and both survive a checkpoint."""

import dataclasses
from collections.abc import Sequence
from typing import SupportsIndex

import torch
from jaxtyping import Int
from torch import Tensor, nn

from rankmixup import random
from rankmixup.errors import InvalidInput, require
from rankmixup.methods.base import Method
from rankmixup.methods.cross_entropy import cross_entropy_loss
from rankmixup.ops import check_target
from rankmixup.types import Batch, Context, StepOutput

__all__ = ["Objective", "TrainStep", "objective"]


class Objective(nn.Module):
    """Calls a method with the random stream, class counts and state that it needs. Made by `objective(...)`.

    In `eval()` mode it is plain cross-entropy on the raw samples: nothing is mixed, nothing is drawn.
    """

    def __init__(self, method: Method, ctx: Context):
        super().__init__()
        self.method = method
        self.state = ctx.state
        self._ctx = ctx
        self.epoch = 0
        self.steps = 0

    def forward(self, model: nn.Module, x: Tensor, y: Int[Tensor, " B"], index: Int[Tensor, " B"] | None = None) -> StepOutput:
        if isinstance(getattr(model, "_orig_mod", model), nn.parallel.DistributedDataParallel):
            raise InvalidInput(
                "model must not be wrapped in DistributedDataParallel, since a step forwards it more than once; "
                "wrap rankmixup.TrainStep(model, objective) instead and call that"
            )
        if not self.training:
            logits = model(x)
            return StepOutput(cross_entropy_loss(logits, y), logits, {})
        check_target(y, len(x), self._ctx.num_classes)  # before a forward changes anything
        ctx = dataclasses.replace(self._ctx, epoch=self.epoch, step=self.steps)
        output = self.method(model, Batch(x, y.long(), index), ctx)
        self.steps += 1
        return output

    def draw_from(self, rng: torch.Generator) -> None:
        """Go on with the random stream `rng`."""
        self._ctx.rng.set_state(rng.get_state())

    def get_extra_state(self) -> Tensor:
        """Epoch, step and random stream as one tensor of bytes, which every checkpoint format can hold."""
        counters = torch.tensor([self.epoch, self.steps]).view(torch.uint8)
        return torch.cat([counters, self._ctx.rng.get_state()])

    def set_extra_state(self, state: Tensor) -> None:
        """Continue where the saved objective stood."""
        counters, stream = state.cpu().split([16, len(state) - 16])
        self.epoch, self.steps = counters.clone().view(torch.long).tolist()
        self._ctx.rng.set_state(stream.clone())


def objective(
    method: Method | str,
    num_classes: int,
    seed: int = 0,
    class_counts: Sequence[int] | Int[Tensor, " K"] | None = None,
    dataset_size: int | None = None,
    rank: int = 0,
) -> Objective:
    """Make a method ready for your own loop.

    With `step = objective(method, num_classes=10)`, the loss of a batch is `step(model, x, y).loss`.

    `class_counts` are the training images of each class (for methods made for long tails), `dataset_size` their sum (for
    methods that keep a history), `rank` this process's number: each mixes with a stream of its own. A loop with epochs sets
    `step.epoch` to their number, from 0.
    """
    if isinstance(method, str):
        method = Method.registry[method]()
    require(isinstance(method, Method), f"method must be a method or the name of one, got {method!r}")
    for name, number in (("num_classes", num_classes), ("seed", seed), ("rank", rank)):
        require(isinstance(number, SupportsIndex), f"{name} must be a whole number, got {number!r}")
    require(num_classes >= 1, f"num_classes must be at least 1, got {num_classes}")
    method.check_task(num_classes)
    counts = None if class_counts is None else torch.as_tensor(class_counts)
    if counts is not None:
        require(counts.shape == (num_classes,), f"class_counts must hold {num_classes} numbers, got {list(counts.shape)}")
        require(bool((counts >= 0).all()), f"class_counts must not be negative, got {counts.tolist()}")
    state = method.initial_state(num_classes=num_classes, dataset_size=dataset_size)
    return Objective(method, Context(random.stream(int(seed), "mixing", int(rank)), num_classes, counts, state))


class TrainStep(nn.Module):
    """Model and objective as one module, for DistributedDataParallel to wrap: every forward of a step happens inside its own.

    The objective is held but not registered: DDP would overwrite every rank's random stream and state with the first rank's. So
    give each process its own, `objective(..., rank=rank)`, and save `step.objective.state_dict()` beside the model's, from each.
    """

    def __init__(self, model: nn.Module, objective: Objective):
        super().__init__()
        self.model = model
        self._objective = (objective,)

    def train(self, mode: bool = True) -> "TrainStep":
        """Set the mode of the objective too, which is not among the registered modules."""
        self.objective.train(mode)
        super().train(mode)
        return self

    @property
    def objective(self) -> Objective:
        return self._objective[0]

    def forward(self, x: Tensor, y: Int[Tensor, " B"], index: Int[Tensor, " B"] | None = None) -> StepOutput:
        return self.objective(self.model, x, y, index)
