"""Streaming metrics that compare groups of samples: frequent and rare classes, in and out of distribution."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics.utilities import dim_zero_cat

from rankmixup.errors import require
from rankmixup.metrics.calibration import Bins, check_num_bins
from rankmixup.metrics.longtail import GROUPS, bins_by_group, class_groups, group_metrics
from rankmixup.metrics.ood import OODKind, check_kind, ood_detection, ood_scores
from rankmixup.metrics.streaming import ScoreMetric

__all__ = ["LongTailMetrics", "OODDetection"]


class LongTailMetrics(ScoreMetric):
    """Streaming twin of `long_tail_metrics`."""

    sums: Tensor
    group: Tensor

    def __init__(self, class_counts: Sequence[int] | Tensor, *, num_bins: int = 15, from_logits: bool = True, **kwargs: Any):
        super().__init__(from_logits=from_logits, **kwargs)
        check_num_bins(num_bins)
        self.num_bins = num_bins
        self.register_buffer("group", class_groups(class_counts), persistent=False)
        self.add_sum("sums", 3, len(GROUPS), num_bins)

    def update(self, logits: Tensor, target: Tensor) -> None:
        """Add a batch."""
        bins = bins_by_group(logits, target, self.group, self.num_bins, from_logits=self.from_logits)
        self.sums += torch.stack([bins.count, bins.confidence, bins.correct])
        self.samples += len(target)

    def compute(self) -> dict[str, dict[str, float | None]]:
        """The values over everything seen."""
        self.require_samples()
        return group_metrics(Bins(*self.sums))


class OODDetection(ScoreMetric):
    """Streaming twin of `ood_scores` followed by `ood_detection`: `update(logits, out)` with a truth value for each sample.

    Keeps two numbers per sample, since these are metrics of ranks.
    """

    score: list[Tensor]
    out: list[Tensor]

    def __init__(self, kind: OODKind = "entropy", *, from_logits: bool = True, **kwargs: Any):
        super().__init__(from_logits=from_logits, **kwargs)
        check_kind(kind)
        self.kind: OODKind = kind
        self.add_state("score", [], dist_reduce_fx="cat")
        self.add_state("out", [], dist_reduce_fx="cat")

    def update(self, logits: Tensor, out: Tensor) -> None:
        """Add a batch."""
        values = ood_scores(logits, self.kind, from_logits=self.from_logits)
        require(out.shape == values.shape, f"out must hold one truth value for each of {len(values)} samples, got {list(out.shape)}")
        require(bool(((out == 0) | (out == 1)).all()), "out must be 0 for in-distribution and 1 for out-of-distribution samples")
        self.score.append(values)
        self.out.append(out.double())
        self.samples += len(values)

    def compute(self) -> dict[str, float]:
        """The values over everything seen."""
        self.require_samples()
        score, out = dim_zero_cat(self.score), dim_zero_cat(self.out).bool()
        return ood_detection(score[~out], score[out])
