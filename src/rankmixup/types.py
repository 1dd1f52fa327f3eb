"""What passes between a loop, a method and a mixer."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from rankmixup.errors import InvalidInput, require, require_whole, shown
from rankmixup.ops import Target, check_tensor, check_unit, class_indices

Inputs: TypeAlias = Tensor | Sequence[Any] | Mapping[str, Any]
"""Inputs of a model: a tensor `[B, ...]`, or a tuple or mapping of such tensors, which may be nested."""
LogitsOf: TypeAlias = Callable[[Any], Tensor]
"""What takes the logits from that which a model returns."""


@dataclass(frozen=True)
class Batch:
    """One training batch."""

    x: Any
    """`Inputs` of B samples: a tensor (always, in `rankmixup.train`), a tuple or a mapping of tensors; for `call_model`."""
    y: Int[Tensor, " B"]
    """Class indices."""
    index: Int[Tensor, " B"] | None = None
    """Position of each sample in the training set, for methods that keep a history."""


@dataclass(frozen=True)
class Context:
    """What a method may know beside the batch."""

    rng: torch.Generator
    num_classes: int
    class_counts: Int[Tensor, " K"] | None = None
    state: nn.Module | None = None
    epoch: int = 0
    step: int = 0


class StepOutput(NamedTuple):
    """What one training step gives back.

    A tuple, because DDP and lightning-fabric look for tensors in tuples but refuse frozen dataclasses.
    """

    loss: Float[Tensor, ""]
    logits: Float[Tensor, "B K"] | None
    """Logits of the raw samples; None for a method that never forwards them."""
    terms: dict[str, Tensor]
    """Named parts of the loss, detached, for the log."""


class Mixed(NamedTuple):
    """Logits of raw and mixed samples, and everything that was drawn to make them."""

    raw: Float[Tensor, "B K"] | None
    logits: Float[Tensor, "M B K"]
    lam: Float[Tensor, "M B"]
    """Weight of the own sample in each mix (for CutMix, the area that is its own)."""
    partner: Int[Tensor, "M B"]
    """Position in the batch of the sample mixed in."""

    def same_class(self, target: Target) -> Bool[Tensor, "M B"]:
        """Where the partner has the sample's own class, itself included."""
        target = self._indices(target, 2**62)
        return target[self.partner] == target

    def relevance(self, target: Target) -> Float[Tensor, "M B"]:
        """Largest entry of the mixed label: max(lam, 1 - lam), or 1 where both samples have one class."""
        check_unit("lam", self.lam)
        return torch.where(self.same_class(target), 1.0, torch.maximum(self.lam, 1 - self.lam))

    def soft_labels(self, num_classes: int, target: Target) -> Float[Tensor, "M B K"]:
        """The label mixtures that timm's and torchvision's mixup return, one set for each mix."""
        check_unit("lam", self.lam)
        target = self._indices(target, require_whole("num_classes", num_classes, least=1, most=2**31))
        one_hot = nn.functional.one_hot(target, num_classes).to(self.lam.dtype)
        lam = self.lam.unsqueeze(-1)
        return lam * one_hot + (1 - lam) * one_hot[self.partner]

    def _indices(self, target: Target, classes: int) -> Int[Tensor, " B"]:
        return class_indices("target", target, self.partner.shape[-1], classes, self.partner)


def map_leaves(function: Callable[..., Tensor], x: Inputs, *others: Any, name: str = "x") -> Any:
    """`x` with `function(name, tensor)` in the place of each of its tensors, whose name is its key or its place in a tuple.

    `others` are built like `x`; the function is given their tensors too.

    >>> map_leaves(lambda name, leaf: leaf + 1, {"a": torch.tensor([1]), "b": (torch.tensor([2]),)})
    {'a': tensor([2]), 'b': (tensor([3]),)}
    """
    if isinstance(x, Tensor):
        return function(name, x, *others)
    inside = "" if name == "x" else f"{name}."
    if isinstance(x, Mapping):
        require(all(isinstance(key, str) for key in x), f"{name} must have strings as keys, got {shown(list(x))}")
        return {key: map_leaves(function, value, *(each[key] for each in others), name=inside + key) for key, value in x.items()}
    if isinstance(x, (tuple, list)):
        places = enumerate(zip(x, *others, strict=True))
        return tuple(map_leaves(function, *values, name=f"{inside}{place}") for place, values in places)
    where = "" if name == "x" else f" as {name!r}"
    raise InvalidInput(f"x must be a tensor, or a tuple or mapping of tensors, got {shown(x)}{where}")


def named_leaves(x: Inputs) -> dict[str, Tensor]:
    """The tensors of `x` by name."""
    leaves: dict[str, Tensor] = {}
    map_leaves(lambda name, leaf: leaves.setdefault(name, leaf), x)
    return leaves


def batch_size(x: Inputs) -> int:
    """How many samples `x` holds; refuses tensors of different lengths."""
    sizes: dict[str, int] = {}
    for name, leaf in [("x", x)] if isinstance(x, Tensor) else named_leaves(x).items():
        require(check_tensor(name, leaf).ndim > 0, f"{name} must be a batch of samples, got a single number")
        sizes[name] = len(leaf)
    require(len(sizes) > 0, f"x must hold at least one tensor, got {shown(x)}")
    require(len(set(sizes.values())) == 1, f"x must hold tensors with one batch size, got {shown(sizes)}")
    return next(iter(sizes.values()))


def call_model(model: nn.Module, x: Inputs, logits_of: LogitsOf | None = None) -> Tensor:
    """The logits that a model gives for `x`.

    A tensor is passed as it is, a tuple as positional arguments, and a mapping as keyword arguments, except for an entry "labels", with
    which models of Hugging Face would compute a loss of their own. See `take_logits` for what the model may return.
    """
    if isinstance(x, Tensor):
        output = model(x)
    elif isinstance(x, Mapping):
        output = model(**{name: value for name, value in x.items() if name != "labels"})
    else:
        output = model(*x)
    return output if logits_of is None and isinstance(output, Tensor) else take_logits(output, logits_of)


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[nn.Module]:
    """`model` in evaluation mode; afterwards each of its parts has its own mode again, as frozen BatchNorm in a network that is trained.

    >>> model = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(2).eval())
    >>> with evaluating(model):
    ...     [part.training for part in model]
    [False, False]
    >>> [part.training for part in model]
    [True, False]
    """
    modes = [(part, part.training) for part in model.modules()]
    try:
        yield model.eval()
    finally:
        model.train(modes[0][1])  # a mode can be more than the flags of the parts
        for part, training in modes:
            part.training = training


def take_logits(output: Any, logits_of: LogitsOf | None = None) -> Tensor:
    """Logits from what a model returned: a tensor, an object with `.logits`, a mapping with "logits", or what `logits_of` takes from it.

    >>> take_logits({"logits": torch.zeros(1, 2), "hidden": None})
    tensor([[0., 0.]])
    """
    found = output if logits_of is None else logits_of(output)
    if isinstance(found, Tensor):
        return found
    inner = found.get("logits") if isinstance(found, Mapping) else getattr(found, "logits", None)
    if isinstance(inner, Tensor):
        return inner
    given = f"{type(found).__name__} with {shown(list(found))}" if isinstance(found, Mapping) else type(found).__name__
    rule = "a model must return one tensor of logits [B, K], or have it as .logits or under 'logits'"
    raise InvalidInput(f"{rule}, got {given}{'' if logits_of is None else ' from logits_of'}; name another place with logits_of=")
