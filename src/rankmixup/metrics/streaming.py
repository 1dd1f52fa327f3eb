"""Streaming twins of the metrics: `torchmetrics.Metric` classes that share the functions' implementation.

Kept apart from the functions because importing torchmetrics is slow; `rankmixup.metrics` resolves these names on first use.
States are sums, in float64, wherever a metric allows it: memory does not grow with the number of samples. They add up
exactly over processes, however unequal their shares: nothing is padded or averaged.
"""

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from rankmixup.errors import InvalidInput, require
from rankmixup.metrics.calibration import Bins, Norm, bin_top_label, check_norm, check_num_bins, require_debiased
from rankmixup.metrics.classwise import Aggregate, check_aggregate, class_gaps, classwise_from_gaps
from rankmixup.metrics.inputs import top_label
from rankmixup.metrics.proper import brier_per_sample, nll_per_sample, right_within
from rankmixup.metrics.smooth import GRID, residual_grid, smooth_from_grid

__all__ = [
    "Accuracy",
    "BrierScore",
    "ClasswiseCalibrationError",
    "DebiasedCalibrationError",
    "ExpectedCalibrationError",
    "MaximumCalibrationError",
    "NegativeLogLikelihood",
    "OverconfidenceError",
    "ScoreMetric",
    "SmoothCalibrationError",
    "UnderconfidenceError",
]


class ScoreMetric(Metric):
    """A metric of scores `[N, K]` and labels `[N]`; `from_logits` says which scores, once and for all batches."""

    samples: Tensor
    full_state_update = False
    is_differentiable = False
    higher_is_better = False

    def __init__(self, *, from_logits: bool = True, **kwargs: Any):
        super().__init__(**kwargs)
        self.from_logits = from_logits
        # torchmetrics gives a process that has seen nothing empty lists of this type; gathering needs one type everywhere.
        self.set_dtype(torch.float64)
        self.add_sum("samples")

    def add_sum(self, name: str, *shape: int) -> None:
        """A state that adds up over batches and processes."""
        self.add_state(name, torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")

    def require_samples(self) -> int:
        """How many samples were seen; refuses none."""
        if int(self.samples) == 0:
            raise InvalidInput(f"{type(self).__name__} must be updated with at least one sample before compute, got none")
        return int(self.samples)


class _MeanMetric(ScoreMetric):
    """A mean over samples."""

    total: Tensor

    def __init__(self, *, from_logits: bool = True, **kwargs: Any):
        super().__init__(from_logits=from_logits, **kwargs)
        self.add_sum("total")

    @abstractmethod
    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        """What to take the mean of, `[N]`."""

    def update(self, logits: Tensor, target: Tensor) -> None:
        """Add a batch."""
        self.total += self._per_sample(logits, target).double().sum()
        self.samples += len(target)

    def compute(self) -> Tensor:
        """The value over everything seen."""
        return self.total / self.require_samples()


class Accuracy(_MeanMetric):
    """Streaming twin of `accuracy`."""

    higher_is_better = True

    def __init__(self, *, top_k: int = 1, from_logits: bool = True, **kwargs: Any):
        super().__init__(from_logits=from_logits, **kwargs)
        require(top_k >= 1, f"top_k must be at least 1, got {top_k}")
        self.top_k = top_k

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        return right_within(logits, target, self.top_k, from_logits=self.from_logits)


class NegativeLogLikelihood(_MeanMetric):
    """Streaming twin of `negative_log_likelihood`."""

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        return nll_per_sample(logits, target, from_logits=self.from_logits)


class BrierScore(_MeanMetric):
    """Streaming twin of `brier_score`."""

    def _per_sample(self, logits: Tensor, target: Tensor) -> Tensor:
        return brier_per_sample(logits, target, from_logits=self.from_logits)


class _BinnedMetric(ScoreMetric):
    """A metric of the sums over equal-width bins."""

    sums: Tensor

    def __init__(self, *, num_bins: int = 15, from_logits: bool = True, **kwargs: Any):
        super().__init__(from_logits=from_logits, **kwargs)
        check_num_bins(num_bins)
        self.num_bins = num_bins
        self.add_sum("sums", 3, num_bins)

    def update(self, logits: Tensor, target: Tensor) -> None:
        """Add a batch."""
        bins = bin_top_label(*top_label(logits, target, from_logits=self.from_logits), self.num_bins)
        self.sums += torch.stack([bins.count, bins.confidence, bins.correct])
        self.samples += len(target)

    def bins(self) -> Bins:
        """The sums seen so far."""
        self.require_samples()
        return Bins(*self.sums)


class ExpectedCalibrationError(_BinnedMetric):
    """Streaming twin of `expected_calibration_error`, Eq. (15)."""

    def __init__(self, *, num_bins: int = 15, norm: Norm = "l1", from_logits: bool = True, **kwargs: Any):
        super().__init__(num_bins=num_bins, from_logits=from_logits, **kwargs)
        check_norm(norm)
        self.norm: Norm = norm

    def compute(self) -> Tensor:
        """The value over everything seen."""
        return self.bins().ece(self.norm)


class MaximumCalibrationError(_BinnedMetric):
    """Streaming twin of `maximum_calibration_error`."""

    def compute(self) -> Tensor:
        """The value over everything seen."""
        return self.bins().mce()


class OverconfidenceError(_BinnedMetric):
    """Streaming twin of `overconfidence_error`, Eq. (16)."""

    def compute(self) -> Tensor:
        """The value over everything seen."""
        return self.bins().oe()


class UnderconfidenceError(_BinnedMetric):
    """Streaming twin of `underconfidence_error`, Eq. (17)."""

    def compute(self) -> Tensor:
        """The value over everything seen."""
        return self.bins().ue()


class DebiasedCalibrationError(_BinnedMetric):
    """Streaming twin of `debiased_calibration_error`."""

    def compute(self) -> Tensor:
        """The value over everything seen."""
        return require_debiased(self.bins().debiased())


class ClasswiseCalibrationError(ScoreMetric):
    """Streaming twin of `classwise_calibration_error`; a sum for each class and bin, so that it must know the classes."""

    gaps: Tensor

    def __init__(self, num_classes: int, *, num_bins: int = 15, aggregate: Aggregate = "mean", from_logits: bool = True, **kwargs: Any):
        super().__init__(from_logits=from_logits, **kwargs)
        require(num_classes >= 1, f"num_classes must be at least 1, got {num_classes}")
        check_num_bins(num_bins)
        check_aggregate(aggregate)
        self.num_classes, self.num_bins = num_classes, num_bins
        self.aggregate: Aggregate = aggregate
        self.add_sum("gaps", num_classes, num_bins)

    def update(self, logits: Tensor, target: Tensor) -> None:
        """Add a batch."""
        gaps = class_gaps(logits, target, self.num_bins, from_logits=self.from_logits)
        require(len(gaps) == self.num_classes, f"scores must have num_classes = {self.num_classes} columns, got {len(gaps)}")
        self.gaps += gaps
        self.samples += len(target)

    def compute(self) -> Tensor:
        """The value over everything seen."""
        return classwise_from_gaps(self.gaps, self.require_samples(), self.aggregate)


class SmoothCalibrationError(ScoreMetric):
    """Streaming twin of `smooth_calibration_error`; its state is the grid of residuals."""

    grid: Tensor

    def __init__(self, *, from_logits: bool = True, **kwargs: Any):
        super().__init__(from_logits=from_logits, **kwargs)
        self.add_sum("grid", GRID + 1)

    def update(self, logits: Tensor, target: Tensor) -> None:
        """Add a batch."""
        self.grid += residual_grid(*top_label(logits, target, from_logits=self.from_logits))
        self.samples += len(target)

    def compute(self) -> Tensor:
        """The value over everything seen."""
        return smooth_from_grid(self.grid, self.require_samples())
