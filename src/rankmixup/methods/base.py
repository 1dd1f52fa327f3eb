"""What a training-time method is: a frozen dataclass whose fields are its configuration and whose call is one step."""

import inspect
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from jaxtyping import Float, Int
from torch import Tensor, nn

from rankmixup.config import Configured
from rankmixup.errors import InvalidInput, require, require_number, shown
from rankmixup.methods.dials import Dial
from rankmixup.mixers import Mixer
from rankmixup.ops import Loss, check_logits
from rankmixup.registry import Registry
from rankmixup.types import Batch, Context, StepOutput, call_model

_registry: "Registry[type[Method]]" = Registry("method", "rankmixup.methods")
register = _registry.register


@dataclass(frozen=True)
class Method(Configured):
    """One training-time approach: runs the forwards of a step and returns its loss."""

    registry = _registry
    orders_mixes: ClassVar[bool] = False
    """Whether the loss asks for less confidence the more a sample is mixed, so that training is wrong if it does not come about."""

    needs: ClassVar[tuple[Literal["class_counts", "index"], ...]] = ()
    """What the method cannot do without: the training samples of each class, or the position of each sample in the training set."""
    nonnegative: ClassVar[tuple[str, ...]] = ()
    """Names of the fields that must be at least 0."""

    def check(self) -> None:
        for name in self.nonnegative:
            if getattr(self, name) != "auto":
                require_number(name, getattr(self, name), least=0)

    @property
    def dials(self) -> Mapping[str, Dial]:
        """The fields that may be "auto", with their ranges: those of which a larger value means less confidence, or more."""
        return {}

    @property
    def auto_dials(self) -> dict[str, Dial]:
        """The dials that are "auto", which feedback from validation samples sets."""
        return {name: dial for name, dial in self.dials.items() if getattr(self, name) == "auto"}

    @abstractmethod
    def __call__(self, model: nn.Module, batch: Batch, ctx: Context) -> StepOutput:
        """One step: every forward that the loss needs, and the loss."""

    @property
    def forwarded(self) -> int:
        """How many samples enter the network in a step for each sample of the batch."""
        return 1

    def check_task(self, num_classes: int) -> None:
        """Raise `InvalidInput` if this method cannot train a task of `num_classes` classes."""

    def check_model(self, model: nn.Module) -> None:
        """Raise `InvalidInput` if this method cannot train `model`, for instance because a layer that it names is missing."""
        for value in vars(self).values():
            if isinstance(value, Mixer):
                value.check_model(model)

    def check_input(self, shape: tuple[int, ...]) -> None:
        """Raise `InvalidInput` if this method cannot train with inputs of this shape, given without the batch."""
        for value in vars(self).values():
            if isinstance(value, Mixer):
                value.check_input(shape)

    def hinges(self, logits: Float[Tensor, "B K"], mixed_logits: Float[Tensor, "M B K"]) -> Float[Tensor, "M B"] | None:
        """By how much each mix fails to stay behind its raw sample as the loss asks; None for a loss that asks nothing of the kind."""
        return None

    def initial_state(self, *, num_classes: int, dataset_size: int | None) -> nn.Module | None:
        """What the method remembers between steps, kept in `ctx.state` and checkpointed; None for most methods."""
        return None


@dataclass(frozen=True)
class LossMethod(Method):
    """A method that is a loss on the logits of the raw samples and nothing else."""

    function: ClassVar[Callable[..., Loss]]
    """The loss of logits and target; it takes the fields of the method by name."""

    def loss(self, logits: Float[Tensor, "B K"], target: Int[Tensor, " B"]) -> Float[Tensor, ""]:
        """The whole training loss: `function`, unless a subclass overrides this."""
        taken = inspect.signature(self.function).parameters  # a subclass may have fields of its own
        return self.function(logits, target, **{name: value for name, value in vars(self).items() if name in taken})

    def __call__(self, model: nn.Module, batch: Batch, ctx: Context) -> StepOutput:
        logits = check_logits(call_model(model, batch.x), rows=len(batch.y))
        return StepOutput(self.loss(logits, batch.y), logits, {})


def resolved(method: Method | type[Method] | str, fields: Mapping[str, Any]) -> Method:
    """The method itself, or that of a name or class with these values of its fields."""
    kind = Method.registry[method] if isinstance(method, str) else method
    if isinstance(kind, type) and issubclass(kind, Method):
        return kind.with_fields(fields)
    if not isinstance(kind, Method):
        raise InvalidInput(f"method must be a method or the name of one, got {shown(method)}")
    require(not fields, f"{', '.join(fields)} must be set in the method itself or be given with its name or class, got {shown(method)}")
    return kind
