"""Streaming metrics of ranks: they keep two numbers per sample, since a rank is known only when all samples are."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rankmixup.errors import require, require_choice
from rankmixup.metrics.calibration import EDGES, Edges, adaptive_from_top_label, ks_from_groups
from rankmixup.metrics.inputs import Logits, Target, ranked_label, top_label
from rankmixup.metrics.ood import KINDS, OODKind, ood_detection, ood_scores
from rankmixup.metrics.rows import check_num_bins
from rankmixup.metrics.selective import aurc_from_groups, correctness_from_groups, excess_from_groups
from rankmixup.metrics.streaming import StreamingMetric
from rankmixup.metrics.ties import TieGroups, confidence_groups, odds_groups
from rankmixup.ops import as_tensor


class _Ranked(StreamingMetric):
    """A metric of two numbers of each sample that `_label` gives, a score and a truth value, and of the groups of equal scores."""

    _label: Callable[..., tuple[Tensor, Tensor]] = staticmethod(ranked_label)
    _groups: Callable[[Tensor, Tensor], TieGroups] = staticmethod(odds_groups)
    _of_groups: Callable[[TieGroups], Tensor]
    _shape = None

    def _read(self, logits: Logits, target: Target) -> Tensor:
        # In one dimension, since that is what torchmetrics gathers from a process that has seen nothing.
        return torch.stack(self._label(logits, target, from_logits=self.from_logits), dim=1).flatten()

    def _value(self, kept: Tensor) -> Any:
        return self._of_samples(*kept.view(-1, 2).unbind(1))

    def _of_samples(self, score: Tensor, truth: Tensor) -> Any:
        return self._of_groups(self._groups(score, truth))


class AURC(_Ranked):
    """Streaming version of `aurc`."""

    _of_groups = staticmethod(aurc_from_groups)


class ExcessAURC(_Ranked):
    """Streaming version of `excess_aurc`."""

    _of_groups = staticmethod(excess_from_groups)


class CorrectnessAUROC(_Ranked):
    """Streaming version of `correctness_auroc`."""

    higher_is_better = True
    _of_groups = staticmethod(correctness_from_groups)


class KSCalibrationError(_Ranked):
    """Streaming version of `ks_calibration_error`."""

    _label = staticmethod(top_label)
    _groups = staticmethod(confidence_groups)
    _of_groups = staticmethod(ks_from_groups)


class AdaptiveCalibrationError(_Ranked):
    """Streaming version of `adaptive_calibration_error`."""

    _label = staticmethod(top_label)

    def __init__(self, *, num_bins: int = 15, edges: Edges = "mass", from_logits: bool = True, **kwargs: Any):
        super().__init__(from_logits=from_logits, **kwargs)
        require_choice("edges", edges, EDGES)
        self.num_bins, self.edges = check_num_bins(num_bins), edges

    def _of_samples(self, score: Tensor, truth: Tensor) -> Tensor:
        return adaptive_from_top_label(score, truth, self.num_bins, self.edges)


class OODDetection(_Ranked):
    """Streaming version of `ood_scores` followed by `ood_detection`: the `target` of a sample is 1 if it is out of distribution, else 0."""

    def __init__(self, kind: OODKind = "entropy", *, from_logits: bool = True, **kwargs: Any):
        super().__init__(from_logits=from_logits, **kwargs)
        require_choice("kind", kind, KINDS)
        self.kind: OODKind = kind

    def _label(self, logits: Logits, target: Target, *, from_logits: bool) -> tuple[Tensor, Tensor]:
        score, out = ood_scores(logits, self.kind, from_logits=from_logits), as_tensor("target", target)
        require(out.shape == score.shape, f"target must hold one truth value for each of {len(score)} samples, got {list(out.shape)}")
        require(bool(((out == 0) | (out == 1)).all()), "target must be 0 for in-distribution and 1 for out-of-distribution samples")
        return score, out.double()

    def _of_samples(self, score: Tensor, truth: Tensor) -> dict[str, float]:
        return ood_detection(score[truth == 0], score[truth == 1])
