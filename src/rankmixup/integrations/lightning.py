"""A method as a LightningModule, for those who train with Lightning's Trainer."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, distributed, nn

from rankmixup import random
from rankmixup.errors import InvalidInput, require, shown
from rankmixup.methods import Method, Objective, cross_entropy_loss, objective
from rankmixup.ops import check_logits
from rankmixup.types import Inputs, call_model

try:
    import lightning
except ImportError as error:
    raise InvalidInput("rankmixup.integrations.lightning needs the package 'lightning' ('pip install rankmixup[lightning]')") from error


class MethodModule(lightning.LightningModule):
    """A network and the method that trains it.

    Batches are `(x, y)`, or `(x, y, index)` with the position of each sample in the training set, which methods that keep a
    history (crl) need. Validation logs `val_nll` and `val_accuracy`, and sets the fields of the method that are "auto"; without validation
    batches these are refused. Override `configure_optimizers` for a schedule.
    """

    def __init__(
        self,
        model: nn.Module,
        method: Method | str,
        num_classes: int,
        optimiser: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer],
        *,
        seed: int = 0,
        class_counts: Sequence[int] | None = None,
        dataset_size: int | None = None,
    ):
        super().__init__()
        require(isinstance(model, nn.Module), f"model must be a torch.nn.Module, got {shown(model)}")
        self.model = model
        self._optimiser, self._seed = optimiser, seed
        # In a tuple, so that it is not registered: DDP would overwrite every process's random stream and state with the first one's.
        self._objective = (objective(method, num_classes, seed, class_counts, dataset_size),)
        self._validated: list[tuple[Tensor, Tensor]] = []
        """Logits and labels of the validation in progress, for dials."""

    @property
    def objective(self) -> Objective:
        """The method with its random stream and its state."""
        return self._objective[0]

    def setup(self, stage: str) -> None:
        """Give each process but the first a random stream of its own."""
        if self.global_rank > 0:
            self.objective.draw_from(random.stream(self._seed, "mixing", self.global_rank))

    def on_fit_start(self) -> None:
        """Move what is not registered."""
        self.objective.to(self.device)

    def forward(self, x: Inputs) -> Tensor:
        """Logits."""
        return call_model(self.model, x)

    def training_step(self, batch: Sequence[Tensor], batch_idx: int) -> Tensor:
        """Loss of the method; its terms are logged."""
        self.objective.epoch = self.current_epoch
        x, y, *index = batch
        output = self.objective(self.model, x, y, *index)
        self.log_dict({"loss": output.loss.detach(), **output.terms})
        return output.loss

    def validation_step(self, batch: Sequence[Tensor], batch_idx: int) -> None:
        """Cross-entropy and accuracy of the network as it is."""
        x, y, *_ = batch
        logits = check_logits(self(x), rows=len(y), classes=self.objective.num_classes)
        figures = {"val_nll": cross_entropy_loss(logits, y), "val_accuracy": (logits.argmax(1) == y).float().mean()}
        self.log_dict(figures, sync_dist=True, batch_size=len(y))
        if self.objective.dials and not self.trainer.sanity_checking:
            self._validated.append((logits.detach(), y))

    def on_validation_epoch_end(self) -> None:
        """Set the dials by the samples of all processes."""
        if not self._validated:
            return
        logits, target = (torch.cat(part) for part in zip(*self._validated, strict=True))
        self._validated = []
        if self.trainer.world_size > 1:  # as many samples in each: Lightning's sampler repeats some to make it so
            gathered: Any = self.all_gather((logits, target))
            logits, target = (each.flatten(0, 1) for each in gathered)
        self.log_dict(self.objective.tune(logits, target))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """What the caller's `optimiser` makes of the parameters."""
        return self._optimiser(self.parameters())

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the objective of every process."""
        states: list[Any] = [self.objective.state_dict()]
        if distributed.is_available() and distributed.is_initialized():
            states = [None] * distributed.get_world_size()
            distributed.all_gather_object(states, self.objective.state_dict())
        checkpoint["objective"] = states

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on with the objective of this process; with a new stream, if there was no such process."""
        states, rank = checkpoint["objective"], self.global_rank
        self.objective.load_state_dict(states[rank if rank < len(states) else 0])
        if rank >= len(states):
            self.objective.draw_from(random.stream(self._seed, "mixing", rank, checkpoint["global_step"]))
