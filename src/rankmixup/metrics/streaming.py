"""Streaming twins of the metrics: `torchmetrics.Metric` classes that share the functions' implementation.

Kept apart from the functions because importing torchmetrics is slow; `rankmixup.metrics` resolves these names on first use.
States are sums over bins, in float64, wherever a metric allows it: memory does not grow with the number of samples.
"""

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from rankmixup.errors import InvalidInput, require
from rankmixup.metrics.calibration import Bins, Edges, adaptive_from_top_label, bin_top_label
from rankmixup.metrics.inputs import top_label
from rankmixup.metrics.proper import nll_per_sample

__all__ = [
    "Accuracy",
    "AdaptiveCalibrationError",
    "ExpectedCalibrationError",
    "MaximumCalibrationError",
    "NegativeLogLikelihood",
    "OverconfidenceError",
    "UnderconfidenceError",
]


class _ScoreMetric(Metric):
    """A metric of scores `[N, K]` and labels `[N]`; `from_logits` says which scores, once and for all batches."""

    samples: Tensor
    full_state_update = False
    is_differentiable = False
    higher_is_better = False

    def __init__(self, *, from_logits: bool = False, **kwargs: Any):
        super().__init__(**kwargs)
        self.from_logits = from_logits
        self.add_state("samples", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def _require_samples(self) -> None:
        if int(self.samples) == 0:
            raise InvalidInput(f"{type(self).__name__} must be updated with at least one sample before compute, got none")


class _MeanMetric(_ScoreMetric):
    """A mean over samples."""

    total: Tensor

    def __init__(self, *, from_logits: bool = False, **kwargs: Any):
        super().__init__(from_logits=from_logits, **kwargs)
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    @abstractmethod
    def _per_sample(self, scores: Tensor, target: Tensor) -> Tensor:
        """What to take the mean of, `[N]`."""

    def update(self, scores: Tensor, target: Tensor) -> None:
        """Add a batch."""
        self.total += self._per_sample(scores, target).double().sum()
        self.samples += len(target)

    def compute(self) -> Tensor:
        """The value over everything seen."""
        self._require_samples()
        return self.total / self.samples


class Accuracy(_MeanMetric):
    """Streaming twin of `accuracy`."""

    higher_is_better = True

    def _per_sample(self, scores: Tensor, target: Tensor) -> Tensor:
        return top_label(scores, target, from_logits=self.from_logits)[1]


class NegativeLogLikelihood(_MeanMetric):
    """Streaming twin of `negative_log_likelihood`."""

    def _per_sample(self, scores: Tensor, target: Tensor) -> Tensor:
        return nll_per_sample(scores, target, from_logits=self.from_logits)


class _BinnedMetric(_ScoreMetric):
    """A metric of the sums over equal-width bins."""

    sums: Tensor

    def __init__(self, *, num_bins: int = 15, from_logits: bool = False, **kwargs: Any):
        super().__init__(from_logits=from_logits, **kwargs)
        require(num_bins >= 1, f"num_bins must be at least 1, got {num_bins}")
        self.num_bins = num_bins
        self.add_state("sums", torch.zeros(3, num_bins, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, scores: Tensor, target: Tensor) -> None:
        """Add a batch."""
        bins = bin_top_label(*top_label(scores, target, from_logits=self.from_logits), self.num_bins)
        self.sums += torch.stack([bins.count, bins.confidence, bins.correct])
        self.samples += len(target)

    def bins(self) -> Bins:
        """The sums seen so far."""
        self._require_samples()
        return Bins(*self.sums)


class ExpectedCalibrationError(_BinnedMetric):
    """Streaming twin of `expected_calibration_error`, Eq. (15)."""

    def compute(self) -> Tensor:
        """The value over everything seen."""
        return self.bins().ece()


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


class AdaptiveCalibrationError(_ScoreMetric):
    """Streaming twin of `adaptive_calibration_error`; keeps two numbers per sample, since equal mass needs all ranks."""

    confidence: list[Tensor]
    correct: list[Tensor]

    def __init__(self, *, num_bins: int = 15, edges: Edges = "mass", from_logits: bool = False, **kwargs: Any):
        super().__init__(from_logits=from_logits, **kwargs)
        self.num_bins, self.edges = num_bins, edges
        self.add_state("confidence", [], dist_reduce_fx="cat")
        self.add_state("correct", [], dist_reduce_fx="cat")

    def update(self, scores: Tensor, target: Tensor) -> None:
        """Add a batch."""
        confidence, correct = top_label(scores, target, from_logits=self.from_logits)
        self.confidence.append(confidence)
        self.correct.append(correct)
        self.samples += len(target)

    def compute(self) -> Tensor:
        """The value over everything seen."""
        self._require_samples()
        return adaptive_from_top_label(dim_zero_cat(self.confidence), dim_zero_cat(self.correct), self.num_bins, self.edges)
