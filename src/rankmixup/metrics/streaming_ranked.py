"""Streaming metrics of ranks: they keep two numbers per sample, since a rank is known only when all samples are."""

from abc import abstractmethod
from typing import Any

from torch import Tensor
from torchmetrics.utilities import dim_zero_cat

from rankmixup.metrics.calibration import Edges, adaptive_from_top_label, check_edges, check_num_bins, ks_from_groups
from rankmixup.metrics.inputs import ranked_label, top_label
from rankmixup.metrics.selective import aurc_from_groups, correctness_from_groups, excess_from_groups
from rankmixup.metrics.streaming import ScoreMetric
from rankmixup.metrics.ties import confidence_groups, odds_groups

__all__ = ["AURC", "AdaptiveCalibrationError", "CorrectnessAUROC", "ExcessAURC", "KSCalibrationError"]


class _RankedMetric(ScoreMetric):
    """A metric of all log-odds and correctnesses."""

    score: list[Tensor]
    correct: list[Tensor]

    def __init__(self, *, from_logits: bool = True, **kwargs: Any):
        super().__init__(from_logits=from_logits, **kwargs)
        self.add_state("score", [], dist_reduce_fx="cat")
        self.add_state("correct", [], dist_reduce_fx="cat")

    def update(self, logits: Tensor, target: Tensor) -> None:
        """Add a batch."""
        score, correct = self._read(logits, target, from_logits=self.from_logits)
        self.score.append(score)
        self.correct.append(correct)
        self.samples += len(target)

    def compute(self) -> Tensor:
        """The value over everything seen."""
        self.require_samples()
        return self._value(dim_zero_cat(self.score), dim_zero_cat(self.correct))

    _read = staticmethod(ranked_label)

    @abstractmethod
    def _value(self, score: Tensor, correct: Tensor) -> Tensor:
        """The metric of all samples."""


class _ConfidenceMetric(_RankedMetric):
    """A metric of all confidences and correctnesses."""

    _read = staticmethod(top_label)


class AdaptiveCalibrationError(_ConfidenceMetric):
    """Streaming twin of `adaptive_calibration_error`."""

    def __init__(self, *, num_bins: int = 15, edges: Edges = "mass", from_logits: bool = True, **kwargs: Any):
        super().__init__(from_logits=from_logits, **kwargs)
        check_num_bins(num_bins)
        check_edges(edges)
        self.num_bins = num_bins
        self.edges: Edges = edges

    def _value(self, score: Tensor, correct: Tensor) -> Tensor:
        return adaptive_from_top_label(score, correct, self.num_bins, self.edges)


class KSCalibrationError(_ConfidenceMetric):
    """Streaming twin of `ks_calibration_error`."""

    def _value(self, score: Tensor, correct: Tensor) -> Tensor:
        return ks_from_groups(confidence_groups(score, correct))


class AURC(_RankedMetric):
    """Streaming twin of `aurc`."""

    def _value(self, score: Tensor, correct: Tensor) -> Tensor:
        return aurc_from_groups(odds_groups(score, correct))


class ExcessAURC(_RankedMetric):
    """Streaming twin of `excess_aurc`."""

    def _value(self, score: Tensor, correct: Tensor) -> Tensor:
        return excess_from_groups(odds_groups(score, correct))


class CorrectnessAUROC(_RankedMetric):
    """Streaming twin of `correctness_auroc`."""

    higher_is_better = True

    def _value(self, score: Tensor, correct: Tensor) -> Tensor:
        return correctness_from_groups(odds_groups(score, correct))
