"""Streaming versions of the metrics: `torchmetrics.Metric` classes that share the functions' implementation.

Kept apart from the functions because importing torchmetrics is slow; `rankmixup.metrics` resolves these names on first use.
States are sums, in float64, wherever a metric allows it: memory does not grow with the number of samples. They add up
exactly over processes, however unequal their shares: nothing is padded or averaged.
"""

from abc import abstractmethod
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from rankmixup.errors import require, require_choice, require_flag, require_whole
from rankmixup.metrics.calibration import NORMS, Bins, Norm, debiased_of_bins, top_label_bins
from rankmixup.metrics.classwise import AGGREGATES, Aggregate, class_gaps, classwise_from_gaps
from rankmixup.metrics.inputs import Logits, Target, per_sample, top_label
from rankmixup.metrics.longtail import GROUPS, bins_by_group, class_groups, group_metrics
from rankmixup.metrics.proper import right_within
from rankmixup.metrics.rows import Rows, check_num_bins
from rankmixup.metrics.smooth import GRID, residual_grid, smooth_from_grid
from rankmixup.ops import ArrayLike


class StreamingMetric(Metric):
    """A metric of logits `[N, K]`, or of probabilities with `from_logits=False`, and labels `[N]`, that is updated batch by batch.

    For two classes the scores may be those of class 1, `[N]` or `[N, 1]`.

    A subclass says with `_read` which numbers to keep of a batch, and with `_value` what the metric of all kept numbers is. They are
    added up in the shape `_shape`, or put one after another where it is None.
    """

    _shape: tuple[int, ...] | None = ()
    kept: Tensor | list[Tensor]
    samples: Tensor
    full_state_update = False
    is_differentiable = False
    higher_is_better = False

    def __init__(self, *, from_logits: bool = True, **kwargs: Any):
        super().__init__(**kwargs)
        require_flag("from_logits", from_logits)
        self.from_logits = from_logits
        # torchmetrics gives a process that has seen nothing empty lists of this type; gathering needs one type everywhere.
        self.set_dtype(torch.float64)
        self.add_state("samples", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        if self._shape is None:
            self.add_state("kept", [], dist_reduce_fx="cat")
        else:
            self.add_state("kept", torch.zeros(self._shape, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, logits: Logits, target: Target) -> None:
        """Add a batch."""
        part = self._read(logits, target)
        if isinstance(self.kept, list):
            self.kept.append(part)
        else:
            self.kept += part
        self.samples += len(target)

    def compute(self) -> Any:
        """The value over everything seen."""
        require(int(self.samples) > 0, f"{type(self).__name__} must be updated with at least one sample before compute, got none")
        return self._value(dim_zero_cat(self.kept))

    @abstractmethod
    def _read(self, logits: Logits, target: Target) -> Tensor:
        """What to keep of a batch; refuses bad ones."""

    @abstractmethod
    def _value(self, kept: Tensor) -> Any:
        """The metric."""


class _Mean(StreamingMetric):
    """A mean over samples of what `_number` reads from rows of scores."""

    _number: Callable[[Rows], Tensor]

    def _read(self, logits: Logits, target: Target) -> Tensor:
        return per_sample(self._number, logits, target, self.from_logits).sum()

    def _value(self, kept: Tensor) -> Tensor:
        return kept / self.samples


class Accuracy(_Mean):
    """Streaming version of `accuracy`."""

    higher_is_better = True

    def __init__(self, *, top_k: int = 1, from_logits: bool = True, **kwargs: Any):
        super().__init__(from_logits=from_logits, **kwargs)
        self.top_k = require_whole("top_k", top_k, least=1)

    def _number(self, rows: Rows) -> Tensor:
        return right_within(rows, self.top_k)


class NegativeLogLikelihood(_Mean):
    """Streaming version of `negative_log_likelihood`."""

    _number = attrgetter("nll")


class BrierScore(_Mean):
    """Streaming version of `brier_score`."""

    _number = attrgetter("brier")


class _Binned(StreamingMetric):
    """A metric of the sums over equal-width bins."""

    _shape: tuple[int, ...] = (3,)
    _of_bins: Callable[[Bins], Any]

    def __init__(self, *, num_bins: int = 15, from_logits: bool = True, **kwargs: Any):
        self.num_bins = check_num_bins(num_bins)
        self._shape = (*self._shape, num_bins)
        super().__init__(from_logits=from_logits, **kwargs)

    def _read(self, logits: Logits, target: Target) -> Tensor:
        return top_label_bins(logits, target, self.num_bins, from_logits=self.from_logits).sums

    def _value(self, kept: Tensor) -> Any:
        return self._of_bins(Bins(*kept))


class ExpectedCalibrationError(_Binned):
    """Streaming version of `expected_calibration_error`, Eq. (15)."""

    def __init__(self, *, num_bins: int = 15, norm: Norm = "l1", from_logits: bool = True, **kwargs: Any):
        super().__init__(num_bins=num_bins, from_logits=from_logits, **kwargs)
        require_choice("norm", norm, NORMS)
        self.norm: Norm = norm

    def _of_bins(self, bins: Bins) -> Tensor:
        return bins.ece(self.norm)


class MaximumCalibrationError(_Binned):
    """Streaming version of `maximum_calibration_error`."""

    _of_bins = staticmethod(Bins.mce)


class OverconfidenceError(_Binned):
    """Streaming version of `overconfidence_error`, Eq. (16)."""

    _of_bins = staticmethod(Bins.oe)


class UnderconfidenceError(_Binned):
    """Streaming version of `underconfidence_error`, Eq. (17)."""

    _of_bins = staticmethod(Bins.ue)


class DebiasedCalibrationError(_Binned):
    """Streaming version of `debiased_calibration_error`."""

    _of_bins = staticmethod(debiased_of_bins)


class LongTailMetrics(_Binned):
    """Streaming version of `long_tail_metrics`."""

    _shape = (3, len(GROUPS))
    group: Tensor
    _of_bins = staticmethod(group_metrics)

    def __init__(self, class_counts: ArrayLike, *, num_bins: int = 15, from_logits: bool = True, **kwargs: Any):
        super().__init__(num_bins=num_bins, from_logits=from_logits, **kwargs)
        self.register_buffer("group", class_groups(class_counts), persistent=False)

    def _read(self, logits: Logits, target: Target) -> Tensor:
        return bins_by_group(logits, target, self.group, self.num_bins, from_logits=self.from_logits).sums


class ClasswiseCalibrationError(StreamingMetric):
    """Streaming version of `classwise_calibration_error`; keeps a sum for each class and bin, so it must know the number of classes."""

    def __init__(self, num_classes: int, *, num_bins: int = 15, aggregate: Aggregate = "mean", from_logits: bool = True, **kwargs: Any):
        self._shape = self.num_classes, self.num_bins = require_whole("num_classes", num_classes, least=2), check_num_bins(num_bins)
        require_choice("aggregate", aggregate, AGGREGATES)
        super().__init__(from_logits=from_logits, **kwargs)
        self.aggregate: Aggregate = aggregate

    def _read(self, logits: Logits, target: Target) -> Tensor:
        gaps = class_gaps(logits, target, self.num_bins, from_logits=self.from_logits)
        require(len(gaps) == self.num_classes, f"logits must have num_classes = {self.num_classes} columns, got {len(gaps)}")
        return gaps

    def _value(self, kept: Tensor) -> Tensor:
        return classwise_from_gaps(kept, int(self.samples), self.aggregate)


class SmoothCalibrationError(StreamingMetric):
    """Streaming version of `smooth_calibration_error`; keeps the grid of residuals."""

    _shape = (GRID + 1,)

    def _read(self, logits: Logits, target: Target) -> Tensor:
        return residual_grid(*top_label(logits, target, from_logits=self.from_logits))

    def _value(self, kept: Tensor) -> Tensor:
        return smooth_from_grid(kept, int(self.samples))
