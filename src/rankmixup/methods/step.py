"""A method made ready for a loop: it holds the random stream and the state, and both survive a checkpoint."""

import dataclasses
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, distributed, nn
from torch.nn import functional as F

from rankmixup import random
from rankmixup.errors import InvalidInput, require, require_number, require_whole, shown
from rankmixup.methods.base import Method, resolved
from rankmixup.methods.cross_entropy import cross_entropy_loss
from rankmixup.methods.dials import FITS, Controller, confidence_gap
from rankmixup.ops import Logits, Target, as_tensor, check_batch, check_counts, check_logits, class_indices, upcast
from rankmixup.types import Batch, Context, Inputs, LogitsOf, StepOutput, batch_size, call_model, take_logits

_STEPS_UNTUNED = 500
"""Training steps without a call of `tune` after which a loop of one's own is reminded."""
_TUNINGS = 3
"""Calls of `tune` that what is wrong with a dial must last for before it is."""
_MARK = b"\0objective of "
"""Stands before the label of a state."""


class Objective(nn.Module):
    """Calls a method with the random stream, class counts and state that it needs. Made by `objective(...)`.

    In `eval()` mode it is plain cross-entropy on the raw samples: nothing is mixed, nothing is drawn. In either mode the model must
    return `num_classes` logits for each sample.

    Inputs are a tensor, a tuple or a mapping of tensors; `call_model` says how a model gets them, and `take_logits` what it may return.
    """

    def __init__(self, method: Method, ctx: Context, logits_of: LogitsOf | None = None):
        super().__init__()
        self.method = method
        self.state = ctx.state
        self.num_classes = ctx.num_classes
        self._ctx = ctx
        self._logits_of = logits_of
        self._class_counts = ctx.class_counts
        self._controller = Controller(method.auto_dials)
        self._set_dials()
        self._fit = torch.zeros(2)
        """Sum over the steps since the last tuning of the cross-entropy of raw training samples, and the number of these steps."""
        self.epoch = 0
        self.steps = 0
        self.reminds = True
        """Whether it warns of a dial that does not work as soon as it shows; not in a trainer that does so at the end."""
        self._lasting: dict[str, int] = {}
        """For how many calls of `tune` each of `dial_trouble`'s kinds has lasted."""

    def forward(self, model: nn.Module, x: Inputs, y: Int[Tensor, " B"], index: Int[Tensor, " B"] | None = None) -> StepOutput:
        if not isinstance(model, nn.Module):  # not `require`, whose message would be made in every step, out of all layers of a network
            raise InvalidInput(f"model must be a torch.nn.Module, got {shown(model)}; wrap a function in a module")
        # Several forwards of a step are safe only inside a single one of DDP's.
        wrapped = isinstance(getattr(model, "_orig_mod", model), nn.parallel.DistributedDataParallel)
        require(not wrapped, "model must not be wrapped in DistributedDataParallel; wrap rankmixup.TrainStep(model, objective) instead")
        return self.on_wrapped(model, x, y, index)

    def on_wrapped(self, model: nn.Module, x: Inputs, y: Int[Tensor, " B"], index: Int[Tensor, " B"] | None = None) -> StepOutput:
        """The same step, for trainers that wrap the model themselves in DistributedDataParallel: each forward is one of the wrapper's."""
        # Before a forward changes anything.
        y = class_indices("y", y, batch_size(x), self.num_classes)
        require(not y.is_meta or (isinstance(x, Tensor) and x.is_meta), "y must hold values, got a tensor on the meta device")
        # A hook sees what every forward of every method and mixer returns. Of a network compiled in place it would become a part.
        in_place = getattr(model, "_compiled_call_impl", None) is not None
        check = torch.compiler.disable(self._check_classes) if in_place else self._check_classes
        watch = nn.Module.register_forward_hook(model, check)  # not its own method: a ScriptModule refuses that
        try:
            if self.training:
                return self._step(model, Batch(x, y, index))
            logits = call_model(model, x)  # the hook has taken them from the output
            return StepOutput(cross_entropy_loss(logits, y), logits, {})
        finally:
            watch.remove()

    def _step(self, model: nn.Module, batch: Batch) -> StepOutput:
        held = self._ctx.class_counts
        if self._class_counts is not None and held is not None and held.device != batch.y.device:  # moved once, not in every step
            self._ctx = dataclasses.replace(self._ctx, class_counts=self._class_counts.to(batch.y.device))
        waits = len(self.dials) > 0 and not self._controller.acts
        self._controller.acted = self._controller.acts
        if waits and self.epoch > 0 and self._controller.updates == 0:
            rule = f"{', '.join(self.dials)} must be set by feedback: call tune(val_logits, val_y) after each epoch"
            raise InvalidInput(f"{rule}, got no call by epoch {self.epoch}")
        output = self.active(model, batch, dataclasses.replace(self._ctx, epoch=self.epoch, step=self.steps))
        self.steps += 1
        if waits and self.reminds and self._controller.updates == 0 and self.steps == _STEPS_UNTUNED:
            rest = "; if an epoch is longer than that, set reminds = False"
            warnings.warn(f"after {_STEPS_UNTUNED} steps: {self.dial_trouble()}{rest}", stacklevel=6)  # who called the module
        if waits:
            self._fit = self._fit.to(batch.y.device)
            if output.logits is not None:
                loss = F.cross_entropy(upcast(output.logits.detach()), batch.y)
                self._fit += torch.stack([loss, torch.ones_like(loss)])
        return output

    @property
    def dials(self) -> dict[str, float]:
        """The fields of the method that are "auto", with the values that they have now."""
        return dict(self._controller.values)

    def tune(self, logits: Logits, target: Target, lr: float | None = None) -> dict[str, float]:
        """Set the dials, the fields that are "auto", from how over- or underconfident the network is.

        To be called once after each epoch, with logits in evaluation mode of samples that it is not trained on; with several processes, by
        each of them with the same samples. A method without such fields is left as it is.

        Args:
            logits: Of validation samples, `[N, K]`.
            target: Their class indices, `[N]`.
            lr: Learning rate that the epoch ended with. Margins move in inverse proportion to it. Leave it out if it is constant.

        It warns once of fewer than 200 samples, and of what `dial_trouble` says where that has lasted for three calls; set `reminds` to
        False and look at `dial_trouble` after training instead.

        Returns:
            The new values by name.
        """
        if lr is not None:
            require_number("lr", lr, least=0)
        logits, target = check_batch(logits, target)
        check_logits(logits, classes=self.num_classes)
        gap = confidence_gap(logits, target)
        require(math.isfinite(gap), "logits must be finite, got others")
        self._controller.update(gap, fits=self._fits(), lr=lr, samples=len(target))
        self._set_dials()
        found = self._controller.troubles()
        self._lasting = {kind: self._lasting.get(kind, 0) + 1 for kind in found}
        due = {kind: trouble for kind, trouble in found.items() if self._lasting[kind] == (1 if kind == "few" else _TUNINGS)}
        if self.reminds and due:
            sentence = self._about_dials(list(due.values()))
            early = "" if list(due) == ["few"] else f" (so far, after {self._controller.updates} tunings)"
            warnings.warn(sentence + early, stacklevel=2)
        return self.dials

    def dial_trouble(self, kept: Mapping[str, float] | None = None) -> str:
        """What is wrong with the dials at the end of training and what to do about it, in a sentence; empty if nothing is.

        Args:
            kept: The values that the epoch was trained with whose weights are kept, where that is not the last.
        """
        found = list(self._controller.troubles(kept).values())
        return self._about_dials(found) if found else ""

    def _about_dials(self, troubles: list[str]) -> str:
        return f"{', '.join(self.dials)} of {self.method.name or type(self.method).__name__} {'; it '.join(troubles)}"

    def _fits(self) -> bool:
        """Whether the network fits the training samples since the last call, of all processes; one that is never shown raw samples does."""
        if self._controller.acts or not self.dials:
            return True
        if distributed.is_available() and distributed.is_initialized():
            distributed.all_reduce(self._fit)
        loss, steps = self._fit.tolist()
        self._fit.zero_()
        return loss <= steps * FITS * math.log(self.num_classes)

    def _set_dials(self) -> None:
        self.active = dataclasses.replace(self.method, **self.dials) if self.dials else self.method
        """The method with a number in the place of every "auto"."""

    def _check_classes(self, model: nn.Module, inputs: Any, output: Any) -> Tensor:
        """Takes the logits from what the model returned; as a hook, gives them to whoever called it."""
        return check_logits(take_logits(output, self._logits_of), classes=self.num_classes)

    def extra_repr(self) -> str:
        """The method with its fields and the number of classes."""
        return f"{self.method!r}, num_classes={self.num_classes}"

    def draw_from(self, rng: torch.Generator) -> None:
        """Go on with the random stream `rng`."""
        self._ctx.rng.set_state(rng.get_state())

    def get_extra_state(self) -> Tensor:
        """Epoch, step, dials, random stream and whose they are as one tensor of bytes, which every checkpoint format can hold."""
        counters = torch.tensor([self.epoch, self.steps]).view(torch.uint8)
        label = torch.frombuffer(bytearray(_MARK + self._label.encode()), dtype=torch.uint8)
        return torch.cat([counters, *self._dial_bytes(), self._ctx.rng.get_state(), label])

    @property
    def _label(self) -> str:
        """The method and the ranges of its dials: what a state must have been made by to mean the same here."""
        ranges = [f"{name} in {dial.low:g}..{dial.high:g}" for name, dial in self._controller.dials.items()]
        return " with ".join([self.method.name or type(self.method).__name__, *([", ".join(ranges)] if ranges else [])])

    def _dial_bytes(self) -> list[Tensor]:
        return [torch.cat([self._fit.cpu().double(), self._controller.state()]).view(torch.uint8)] if self.dials else []

    def set_extra_state(self, state: Tensor) -> None:
        """Continue where the saved objective stood."""
        dense = isinstance(state, Tensor) and state.layout == torch.strided and not (state.is_nested or state.is_meta)
        require(dense and state.dtype == torch.uint8 and state.ndim == 1, f"state must be a tensor [N] of bytes, got {shown(state)}")
        content, mark, label = state.cpu().numpy().tobytes().rpartition(_MARK)
        content, found = (content, label.decode(errors="replace")) if mark else (label, "")
        # Version 0.2 did not say whose a state is. Without dials there is nothing in it that another method could take for something else.
        rule, got = f"state must be that of {self._label}", f"that of {shown(found)}" if mark else "one that does not say whose it is"
        require(found == self._label or not (mark or self.dials), f"{rule}, got {got}")
        sizes = [16, *map(len, self._dial_bytes()), len(self._ctx.rng.get_state())]
        require(len(content) == sum(sizes), f"{rule}, which has {sum(sizes)} bytes, got {len(content)}")
        counters, *dials, stream = torch.frombuffer(bytearray(content), dtype=torch.uint8).split(sizes)
        numbers = [each.clone().view(torch.float64) for each in dials]
        valid = all(bool(each[2:].isfinite().all()) for each in numbers)
        try:  # before anything is changed
            torch.Generator().set_state(stream.clone())
        except RuntimeError:
            valid = False
        require(valid, f"{rule}, got one that is damaged")
        self.epoch, self.steps = counters.clone().view(torch.long).tolist()
        for each in numbers:
            self._fit = each[:2].float()
            self._controller.restore(each[2:])
            self._set_dials()
        self._ctx.rng.set_state(stream.clone())


def objective(
    method: Method | type[Method] | str,
    num_classes: int,
    seed: int = 0,
    class_counts: Sequence[int] | Int[Tensor, " K"] | None = None,
    dataset_size: int | None = None,
    rank: int = 0,
    logits_of: LogitsOf | None = None,
    **fields: Any,
) -> Objective:
    """Make a method ready for your own loop.

    Args:
        method: A name or alias from `rankmixup.list_methods()`, a method's class, or a method.
        num_classes: How many logits the network returns for each sample.
        seed: Seed of the random stream that mixing draws from.
        class_counts: Training images of each class, for methods made for long tails.
        dataset_size: Number of training images, for methods that keep a history.
        rank: Number of this process; each process mixes with a random stream of its own.
        logits_of: Takes the logits from what the network returns, where they are neither that itself nor its `.logits` or `["logits"]`.
        **fields: Fields of the method, such as `margin=1.0`; only with a name or a class.

    Returns:
        A module: the loss of a batch is `step(model, x, y).loss`. A loop with epochs sets `step.epoch` to their number, from 0.

    >>> objective("mbls", num_classes=10, margin=8.0)
    Objective(MbLS(margin=8.0, weight=0.1), num_classes=10)
    """
    method = resolved(method, fields)
    num_classes, seed, rank = require_whole("num_classes", num_classes, least=1), require_whole("seed", seed), require_whole("rank", rank)
    method.check_task(num_classes)
    counts = None
    if class_counts is not None:
        counts = check_counts("class_counts", as_tensor("class_counts", class_counts), wait=True)
        require(counts.shape == (num_classes,), f"class_counts must hold {num_classes} numbers, got {list(counts.shape)}")
    require(logits_of is None or callable(logits_of), f"logits_of must be a function, got {shown(logits_of)}")
    state = method.initial_state(num_classes=num_classes, dataset_size=dataset_size)
    return Objective(method, Context(random.stream(seed, "mixing", rank), num_classes, counts, state), logits_of)


class TrainStep(nn.Module):
    """Model and objective as one module, for DistributedDataParallel to wrap: every forward of a step happens inside its own.

    The objective is held but not registered: DDP would overwrite every rank's random stream and state with the first rank's. So
    give each process its own, `objective(..., rank=rank)`, and save `step.objective.state_dict()` beside the model's, from each.
    """

    objective: Objective

    def __init__(self, model: nn.Module, objective: Objective):
        super().__init__()
        require(isinstance(model, nn.Module), f"model must be a torch.nn.Module, got {shown(model)}")
        require(isinstance(objective, Objective), f"objective must be made by rankmixup.objective, got {shown(objective)}")
        self.model = model
        self.__dict__["objective"] = objective

    def train(self, mode: bool = True) -> "TrainStep":
        """Set the mode of the objective too, which is not among the registered modules."""
        self.objective.train(mode)
        return super().train(mode)

    def forward(self, x: Inputs, y: Int[Tensor, " B"], index: Int[Tensor, " B"] | None = None) -> StepOutput:
        return self.objective(self.model, x, y, index)
