"""Methods under Lightning's Trainer: a ready LightningModule, and a base for modules of one's own."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, distributed, nn

from rankmixup import random
from rankmixup.errors import InvalidInput, require, shown
from rankmixup.methods import Method, Objective, objective
from rankmixup.metrics.streaming import Accuracy, ExpectedCalibrationError, NegativeLogLikelihood, StreamingMetric
from rankmixup.models import build_model
from rankmixup.ops import check_logits
from rankmixup.types import Inputs, call_model

try:
    import lightning
except ImportError as error:
    raise InvalidInput("rankmixup.integrations.lightning needs the package 'lightning' ('pip install rankmixup[lightning]')") from error

_METRICS = {"ece": ExpectedCalibrationError, "nll": NegativeLogLikelihood, "accuracy": Accuracy}


class MethodMixin(lightning.LightningModule):
    """A base for a LightningModule of your own that is trained with a method.

    Call `set_method` in `__init__`, `method_loss` in `training_step` and `log_metrics` in `validation_step`. Each process then draws from a
    random stream of its own, checkpoints hold these streams and the state of the method, and validation sets the fields of the method
    that are "auto". An override of `on_train_start`, `on_validation_epoch_end`, `on_fit_end`, `on_save_checkpoint` or `on_load_checkpoint`
    must call that of `super()`.
    """

    _method_due = False
    """Whether the checkpoint that training goes on from was saved before a validation, which Lightning leaves out."""

    def set_method(
        self,
        method: Method | type[Method] | str,
        num_classes: int,
        *,
        seed: int = 0,
        class_counts: Sequence[int] | Tensor | None = None,
        dataset_size: int | None = None,
        **fields: Any,
    ) -> None:
        """Choose the method; the arguments are those of `rankmixup.objective`."""
        # In a tuple, so that it is not registered: DDP would overwrite every process's random stream and state with the first one's.
        self._method_objective = (objective(method, num_classes, seed, class_counts, dataset_size, **fields),)
        self.objective.reminds = False  # `on_fit_end` does so
        self._method_seed, self._method_rank = seed, 0
        # Not registered either: they are moved when they are used, so that a checkpoint and the device of the module do not depend on them.
        self._method_metrics: dict[str, StreamingMetric] = {}
        self._method_validated: list[tuple[Tensor, Tensor]] = []
        """Logits and labels of the validation in progress, for dials."""

    @property
    def objective(self) -> Objective:
        """The method with its random stream and its state."""
        held = self.__dict__.get("_method_objective", ())
        # Not through an AttributeError, which torch's modules take for a missing attribute.
        require(bool(held), f"{type(self).__name__} must call set_method(method, num_classes) in __init__, got no call")
        return held[0]

    def method_loss(self, model: nn.Module, x: Inputs, y: Tensor, index: Tensor | None = None) -> Tensor:
        """Loss of the method on a training batch; it and its terms are logged.

        Args:
            model: The network, which is forwarded as often as the method needs.
            x: Inputs.
            y: Their class indices.
            index: Their positions in the training set, which methods that keep a history (crl) need.
        """
        step = self.objective.to(self.device)
        if self.global_rank != self._method_rank:
            step.draw_from(random.stream(self._method_seed, "mixing", self.global_rank))
            self._method_rank = self.global_rank
        step.epoch = self.current_epoch
        output = step(model, x, y, index)
        self.log_dict({"loss": output.loss.detach(), **output.terms}, batch_size=len(y))
        return output.loss

    def log_metrics(self, stage: str, logits: Tensor, y: Tensor, dataloader_idx: int = 0) -> None:
        """Log `STAGE_ece`, `STAGE_nll` and `STAGE_accuracy` of an epoch, exactly over batches and processes.

        Args:
            stage: "val" or "test". The samples of "val" also set the fields of the method that are "auto".
            logits: Of a batch, in evaluation mode.
            y: Their class indices.
            dataloader_idx: The number of the loader, where there are several.
        """
        logits = check_logits(logits.detach(), rows=len(y), classes=self.objective.num_classes)
        device = torch.device("cpu") if self.device.type == "mps" else self.device  # which has no float64
        for name, kind in _METRICS.items():
            key = f"{stage}_{name}_{dataloader_idx}"
            if key not in self._method_metrics:
                self._method_metrics[key] = kind()
            metric = self._method_metrics[key].to(device)
            metric.update(logits.to(device), y.to(device))
            self.log(f"{stage}_{name}", metric, on_step=False, on_epoch=True, batch_size=len(y), metric_attribute=key)
        fits = self.trainer.state.fn == "fit" and not self.trainer.sanity_checking
        if stage == "val" and self.objective.dials and fits:
            self._method_validated.append((logits, y))

    def on_validation_epoch_end(self) -> None:
        """Set the dials by the samples of all processes."""
        super().on_validation_epoch_end()
        if not (self.objective.dials and self._method_validated):
            return
        logits, target = (torch.cat(part) for part in zip(*self._method_validated, strict=True))
        self._method_validated = []
        if self.trainer.world_size > 1:  # as many samples in each: Lightning's sampler repeats some to make it so
            gathered: Any = self.all_gather((logits, target))
            logits, target = (each.flatten(0, 1) for each in gathered)
        rates = [group["lr"] for optimiser in self.trainer.optimizers for group in optimiser.param_groups]
        self.log_dict(self.objective.tune(logits, target, lr=max(rates)))

    def on_train_start(self) -> None:
        """Make up for the validation that was due when the checkpoint was saved, so that the dials are as they would have been."""
        super().on_train_start()
        if self._method_due:
            self._method_due, loop = False, self.trainer.fit_loop.epoch_loop.val_loop
            self.trainer.validating, loop.restarting = True, False
            loop.run()
            self.trainer.training = True

    def on_fit_end(self) -> None:
        """Warn of fields that are "auto" and did not do what they are for."""
        super().on_fit_end()
        if self.global_rank == 0 and (trouble := self.objective.dial_trouble()):
            warnings.warn(trouble, stacklevel=2)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the objective of every process."""
        super().on_save_checkpoint(checkpoint)
        states: list[Any] = [self.objective.state_dict()]
        if distributed.is_available() and distributed.is_initialized():
            states = [None] * distributed.get_world_size()
            distributed.all_gather_object(states, self.objective.state_dict())
        checkpoint["objective"] = states
        checkpoint["objective_due"] = bool(self.objective.dials) and self._validation_is_due()

    def _validation_is_due(self) -> bool:
        """Whether a batch has just been trained on, after which Lightning validates."""
        fit: Any = None if self._trainer is None else self.trainer.fit_loop
        if fit is None or fit._data_fetcher is None:  # not in training
            return False
        batches = fit.epoch_loop.batch_progress.current
        return batches.processed > batches.completed and bool(fit.epoch_loop._should_check_val_fx(fit._data_fetcher))

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on with the objective of this process; with a new stream, if there was no such process.

        A checkpoint without one is refused, unless `strict_loading` is False.
        """
        super().on_load_checkpoint(checkpoint)
        if "objective" not in checkpoint:
            rule = "a checkpoint must hold the objective of its method, unless strict_loading is False"
            require(not self.strict_loading, f"{rule}, got one with {', '.join(checkpoint) or 'nothing'}")
            return
        states, rank = checkpoint["objective"], self.global_rank
        self.objective.load_state_dict(states[rank if rank < len(states) else 0])
        if rank >= len(states):
            self.objective.draw_from(random.stream(self._method_seed, "mixing", rank, checkpoint["global_step"]))
        self._method_rank = rank
        self._method_due = checkpoint.get("objective_due", False)


class MethodModule(MethodMixin):
    """A network and the method that trains it.

    Batches are `(x, y)`, or `(x, y, index)` with the position of each sample in the training set, which methods that keep a
    history (crl) need. Validation logs `val_ece`, `val_nll` and `val_accuracy`, and sets the fields of the method that are "auto"; without
    validation batches these are refused. Testing logs the same as `test_ece` and so on.

    `MethodModule.load_from_checkpoint(path)` needs no other arguments where the network was named. A network of your own must be given
    again, `load_from_checkpoint(path, model=network)`, since a checkpoint holds its weights and no code. The same holds for
    `optimiser` and `scheduler`, if training goes on.

    Args:
        model: A network of your own, or the name of one for `rankmixup.build_model`.
        method: A method or the name of one; or a description, `method.to_dict()`, which is what checkpoints hold.
        num_classes: How many logits the network returns for each sample.
        optimiser: Makes an optimiser of the parameters. Validation, testing and predicting need none.
        scheduler: Makes a scheduler of the optimiser, which is stepped after each epoch; or a dictionary with it, such as
            `{"scheduler": scheduler, "interval": "step"}`, as Lightning's `configure_optimizers` returns it.
        image_size: Height and width of the images; only with the name of a network.
        in_channels: Their number of channels; only with the name of a network.
        seed: Seed of the random streams that mixing draws from.
        class_counts: Training images of each class, for methods made for long tails.
        dataset_size: Number of training images, for methods that keep a history.
    """

    def __init__(
        self,
        model: nn.Module | str | None,
        method: Method | str | Mapping[str, Any] | None,
        num_classes: int,
        optimiser: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer] | None = None,
        *,
        scheduler: Callable[[torch.optim.Optimizer], Any] | None = None,
        image_size: int | None = None,
        in_channels: int = 3,
        seed: int = 0,
        class_counts: Sequence[int] | Tensor | None = None,
        dataset_size: int | None = None,
    ):
        super().__init__()
        class_counts = None if class_counts is None else [int(count) for count in class_counts]
        chosen: Any = Method.from_dict(dict(method)) if isinstance(method, Mapping) else method
        self.set_method(chosen, num_classes, seed=seed, class_counts=class_counts, dataset_size=dataset_size)
        named = model if isinstance(model, str) else None
        if isinstance(model, str):
            require(image_size is not None, f"image_size must be given with the name of a network, got model {model!r} alone")
            assert image_size is not None
            model = build_model(model, num_classes=num_classes, image_size=image_size, in_channels=in_channels)
        rule = "model must be a torch.nn.Module or the name of a network; one of your own is in no checkpoint and must be given again"
        require(isinstance(model, nn.Module), f"{rule}, got {shown(model)}")
        self.model: nn.Module = model  # type: ignore[assignment]
        self._optimiser, self._scheduler = optimiser, scheduler
        kept = {"model": named, "num_classes": num_classes, "image_size": image_size, "in_channels": in_channels, "seed": seed}
        self.save_hyperparameters(kept | {"class_counts": class_counts, "dataset_size": dataset_size, "method": self._described()})

    def _described(self) -> dict[str, Any] | None:
        """The method as plain data; None for one that is not registered, which must be given again."""
        try:
            return self.objective.method.to_dict()
        except InvalidInput:
            return None

    def forward(self, x: Inputs) -> Tensor:
        """Logits."""
        return call_model(self.model, x)

    def training_step(self, batch: Sequence[Tensor], batch_idx: int) -> Tensor:
        """Loss of the method; its terms are logged."""
        x, y, *index = batch
        return self.method_loss(self.model, x, y, *index)

    def validation_step(self, batch: Sequence[Tensor], batch_idx: int, dataloader_idx: int = 0) -> None:
        """ECE, NLL and accuracy of the network as it is."""
        x, y, *_ = batch
        self.log_metrics("val", self(x), y, dataloader_idx)

    def test_step(self, batch: Sequence[Tensor], batch_idx: int, dataloader_idx: int = 0) -> None:
        """ECE, NLL and accuracy of the network as it is."""
        x, y, *_ = batch
        self.log_metrics("test", self(x), y, dataloader_idx)

    def predict_step(self, batch: Tensor | Sequence[Tensor], batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        """Logits of a batch `x` or `(x, ...)` in float32, for `rankmixup.evaluate` and calibrators; probabilities are their softmax."""
        return self(batch if isinstance(batch, Tensor) else batch[0]).float()

    def configure_optimizers(self) -> Any:
        """What the caller's `optimiser` makes of the parameters, and `scheduler` of it."""
        require(self._optimiser is not None, "optimiser must be given to train, got None; a checkpoint does not hold it")
        assert self._optimiser is not None
        optimiser = self._optimiser(self.parameters())
        return optimiser if self._scheduler is None else {"optimizer": optimiser, "lr_scheduler": self._scheduler(optimiser)}
