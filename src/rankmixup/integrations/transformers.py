"""A method in the Trainer of Hugging Face."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from rankmixup import random
from rankmixup.errors import InvalidInput, import_extra, require, shown
from rankmixup.evaluation import METRICS, all_metrics, ece_noise_floor
from rankmixup.integrations.samples import INDEX, Indexed, IndexedCollator, count_classes
from rankmixup.integrations.transformers_calibration import fold_temperature
from rankmixup.integrations.transformers_checkpoints import ObjectiveCheckpoints
from rankmixup.methods import Method, Objective, cross_entropy_loss, objective
from rankmixup.methods.base import resolved
from rankmixup.ops import check_logits, confidence, upcast
from rankmixup.posthoc import FitReport, TemperatureScaling
from rankmixup.types import LogitsOf, call_model, evaluating, take_logits

for _package in ("transformers", "accelerate"):
    import_extra(_package, "rankmixup.integrations.transformers", "transformers")

from transformers import Trainer  # noqa: E402

__all__ = ["RankMixupMixin", "RankMixupTrainer"]

_FIGURES = ("accuracy", "nll", "brier", "ece")
_REPLICATES = 100
"""Simulated models behind the noise floor: enough for its mean, cheap enough for every evaluation."""


class RankMixupMixin(ObjectiveCheckpoints):
    """Trains with a method of this library. To be put before `Trainer`, or a subclass of it, among the bases of a class.

    Training takes the method's loss. The means of its terms, and the values of its fields that are "auto", are logged with the loss.
    Evaluation takes cross-entropy and adds `eval_accuracy`, `eval_nll`, `eval_brier`, `eval_ece` and `eval_ece_floor`, the ECE that a
    calibrated model with the same confidences would show on average; metrics of the same name from `compute_metrics` stay. In training it
    also sets the fields that are "auto". A checkpoint holds the random stream and the state of the method, one file for each process, and
    `resume_from_checkpoint` goes on as if training had not stopped.

    A `metric_for_best_model` that is an error of this library (such as "nll", "brier" or "ece") is minimised: Trainer would take the worst
    model.

    Args:
        *args: As for `Trainer`.
        method: A name or alias from `rankmixup.list_methods()`, a method's class, or a method.
        fields: Fields of the method, such as `{"margin": 1.0}`; only with a name or a class.
        num_classes: How many logits the model returns for each sample; `model.config.num_labels` if not given.
        class_counts: Training samples of each class; counted in the training set if not given, where the method needs them.
        logits_of: Takes the logits from what the model returns, where they are neither that itself nor its `.logits` or `["logits"]`.
        **kwargs: As for `Trainer`.
    """

    loss_is_scaled_for_ga = False  # the loss is the mean over a batch, to be divided by the number of batches that are accumulated

    def __init__(
        self,
        *args: Any,
        method: Method | type[Method] | str,
        fields: Mapping[str, Any] | None = None,
        num_classes: int | None = None,
        class_counts: Sequence[int] | None = None,
        logits_of: LogitsOf | None = None,
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        # What versions before `loss_is_scaled_for_ga` look at: a model that divides its loss itself is not divided again.
        self.model_accepts_loss_kwargs = False
        require(self.compute_loss_func is None, f"compute_loss_func must not be given beside a method, got {shown(self.compute_loss_func)}")
        smoothing = self.args.label_smoothing_factor
        require(smoothing == 0, f"label_smoothing_factor must be 0 beside a method, got {smoothing}; use method='label-smoothing'")
        self._logits_of = logits_of
        self.objective = self._made(resolved(method, fields or {}), num_classes, class_counts)
        best = f"_{self.args.metric_for_best_model}"
        if any(best.endswith(f"_{key}") for key, metric in METRICS.items() if not metric.higher_is_better):
            self.args.greater_is_better = False
        self._terms: dict[str, Tensor] = {}
        """Sums of the method's terms since they were last logged."""
        self._steps = 0
        self._mean_size = 0.0
        """Samples in each of the batches that are accumulated, on average."""
        self._scored: list[tuple[Tensor, Tensor]] | None = None
        """Logits and labels of the evaluation in progress, of all processes."""
        self._validated: list[tuple[Tensor, Tensor]] | None = None
        """Those of all data sets that one evaluation looks at."""

    def _made(self, method: Method, num_classes: int | None, class_counts: Any) -> Objective:
        model: Any = self.model
        config = getattr(model, "config", None)
        kind = getattr(config, "problem_type", None)
        rule = "problem_type of the model's config must be None or 'single_label_classification'"
        require(kind in (None, "single_label_classification"), f"{rule}, got {kind!r}")
        classes: Any = getattr(config, "num_labels", None) if num_classes is None else num_classes
        require(classes is not None, "num_classes must be given for a model without config.num_labels, got None")
        method.check_model(model)
        data: Any = self.train_dataset
        size = len(data) if hasattr(data, "__len__") else None
        if class_counts is None and size and "class_counts" in method.needs:
            class_counts = count_classes(data, [*self.label_names, "label", "label_ids"], classes)
        rank = self.args.process_index
        made = objective(method, classes, self.args.seed, class_counts, size, rank, self._logits_of).to(self.args.device)
        made.reminds = False  # `train` does so at the end
        dials = ", ".join(made.dials)
        wrong = f"eval_strategy must be 'steps' or 'epoch': evaluation sets {dials} of the method, got 'no'"
        require(not dials or data is None or self.args.eval_strategy != "no", wrong)
        return made

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """As Trainer's; warns at the end of fields that are "auto" and did not do what they are for."""
        output = super().train(*args, **kwargs)
        if self.is_world_process_zero() and (trouble := self.objective.dial_trouble()):
            warnings.warn(trouble, stacklevel=2)
        return output

    def compute_loss(
        self, model: nn.Module, inputs: Mapping[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor | tuple[Tensor, Any]:
        """The method's loss in training, cross-entropy in evaluation."""
        y, index = self._labels(inputs), inputs.get(INDEX)
        # Not the labels: the model would compute a loss of its own.
        x = {key: value for key, value in inputs.items() if key not in (*self.label_names, INDEX) and value is not None}
        if not model.training:
            return self._evaluated(model(**x), y, return_outputs)
        if not self.objective.dials:  # these wait for the first evaluation, however many epochs pass until then
            self.objective.epoch = int(self.state.epoch or 0)
        output = self.objective.on_wrapped(model, x, y, index)
        self._steps += 1
        share = len(y) / self._mean_size if self._mean_size > 0 else 1.0  # so that every sample counts the same
        for term, value in output.terms.items():
            self._terms[term] = self._terms.get(term, 0) + share * value
        loss, found = share * output.loss, {} if output.logits is None else {"logits": output.logits}
        return (loss, found) if return_outputs else loss

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> Any:
        """As Trainer's: the batches that are accumulated, whose sizes are remembered."""
        batches, items = super().get_batch_samples(*args, **kwargs)
        self._mean_size = sum(len(self._labels(batch)) for batch in batches) / max(len(batches), 1)
        return batches, items

    def _labels(self, inputs: Mapping[str, Any]) -> Tensor:
        name = next((each for each in self.label_names if inputs.get(each) is not None), None)
        if name is None:
            raise InvalidInput(f"a batch must hold labels as one of {self.label_names}, got {list(inputs)}")
        labels: Tensor = inputs[name]
        return labels

    def _evaluated(self, output: Any, y: Tensor, return_outputs: bool) -> Tensor | tuple[Tensor, Any]:
        logits = check_logits(take_logits(output, self._logits_of), rows=len(y), classes=self.objective.num_classes)
        loss = cross_entropy_loss(logits, y)
        if self._scored is not None:
            gathered: Any = self.accelerator.gather_for_metrics((logits.detach(), y))
            self._scored.append((upcast(gathered[0]).cpu(), gathered[1].cpu()))
        # A mapping, since of a tuple Trainer takes the first entry for the loss.
        return (loss, output if isinstance(output, Mapping) else {"logits": logits}) if return_outputs else loss

    def evaluation_loop(
        self,
        dataloader: DataLoader[Any],
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> Any:
        """Adds this library's metrics."""
        self._scored = []
        try:
            output = super().evaluation_loop(dataloader, description, prediction_loss_only, ignore_keys, metric_key_prefix)
        finally:
            scored, self._scored = self._scored, None
        if scored and output.metrics is not None:
            logits, target = (torch.cat(part) for part in zip(*scored, strict=True))
            for name, value in _figures(logits, target, self.args.seed).items():
                output.metrics.setdefault(f"{metric_key_prefix}_{name}", value)
            if self._validated is not None:
                self._validated.append((logits, target))
        return output

    def evaluate(self, eval_dataset: Any = None, ignore_keys: list[str] | None = None, metric_key_prefix: str = "eval") -> dict[str, float]:
        """As Trainer's; in training it sets the fields of the method that are "auto" too, by the samples of all evaluation sets."""
        if self._validated is not None:  # one of several data sets
            return super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
        self._validated = []
        try:
            metrics = super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
        finally:
            validated, self._validated = self._validated, None
        if self.is_in_train and self.state.global_step > 0 and self.objective.dials and validated:
            assert self.optimizer is not None  # while training
            logits, target = (torch.cat(part) for part in zip(*validated, strict=True))
            self.objective.tune(logits, target, lr=float(max(group["lr"] for group in self.optimizer.param_groups)))
        return metrics

    def calibrate(self, dataset: Any = None) -> FitReport:
        """Fit a temperature to held-out samples and put it into the weights, for `save_model`, `push_to_hub` and `pipeline`.

        To be called after training. The weight and the bias of the layer that returns the logits are divided by the temperature, so that
        whatever loads the model has calibrated probabilities; predicted classes stay. `config.rankmixup_temperature` records by what they
        were divided in all. A temperature that does not lower the NLL of the samples is left out, and a warning says so.

        Args:
            dataset: Labelled samples that were not trained on, or the name of one of several `eval_dataset`; `eval_dataset` if not given.

        Returns:
            The temperature, as `parameters["temperature"]`, with NLL and ECE of the samples before and after it.
        """
        require(not self.is_in_train, "calibrate must be called after training, got a call within it")
        given = self.eval_dataset if dataset is None else dataset
        require(given is not None and not isinstance(given, Mapping), f"dataset must be one set of labelled samples, got {shown(given)}")
        loader, self._validated = self.get_eval_dataloader(dataset), []
        try:
            self.evaluation_loop(loader, "Calibration", prediction_loss_only=True)
        finally:
            validated, self._validated = self._validated, None
        require(len(validated) > 0, "dataset must hold labelled samples, got none")
        report = TemperatureScaling().fit(*validated[0], warn=False).report_
        if not report.verdict.startswith("improves NLL"):
            warnings.warn(f"the temperature is left out: its fit {report.verdict}", stacklevel=2)
            return report
        model: Any = self.accelerator.unwrap_model(self.model)
        batch: Any = self._prepare_inputs(next(iter(loader)))
        x = {key: value for key, value in batch.items() if key not in self.label_names}
        temperature = float(report.parameters["temperature"])  # type: ignore[arg-type]
        with torch.no_grad(), evaluating(model):
            fold_temperature(model, temperature, lambda: call_model(model, x, self._logits_of))
        if hasattr(model, "config"):
            model.config.rankmixup_temperature = temperature * getattr(model.config, "rankmixup_temperature", 1.0)
        return report

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Adds the terms of the loss, and the values of fields that are "auto", to the training loss."""
        if "loss" in logs and self._steps > 0:
            logs |= {name: (total / self._steps).item() for name, total in self._terms.items()} | self.objective.dials
            self._terms, self._steps = {}, 0
        super().log(logs, *args, **kwargs)

    def get_train_dataloader(self) -> DataLoader[Any]:
        """As Trainer's; for a method that needs them, with the position of each sample in the training set."""
        if "index" not in self.objective.method.needs:
            return super().get_train_dataloader()
        dataset, collator = self.train_dataset, self.data_collator
        # Pairs, which pass Trainer's removal of unused columns; so these are removed here.
        self.train_dataset, self.data_collator = Indexed(dataset), IndexedCollator(self._get_collator_with_removed_columns(collator))
        try:
            return super().get_train_dataloader()
        finally:
            self.train_dataset, self.data_collator = dataset, collator


class RankMixupTrainer(RankMixupMixin, Trainer):
    """`transformers.Trainer` with a method of this library: `RankMixupTrainer(model, args, method="rankmixup-mrl", ...)`."""


def _figures(logits: Tensor, target: Tensor, seed: int) -> dict[str, float]:
    """Metrics of an evaluation; NaN for a model that returned such logits."""
    if not bool(logits.isfinite().all()):
        return dict.fromkeys((*_FIGURES, "ece_floor"), float("nan"))
    values = all_metrics(logits, target, classwise=False)
    found = {name: float(values[name] or 0) for name in _FIGURES}
    floor = ece_noise_floor(confidence(logits), found["ece"], random.stream(seed, "noise-floor"), replicates=_REPLICATES)
    return found | {"ece_floor": floor.mean}
