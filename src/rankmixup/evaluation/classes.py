"""One row for each class, by the label of the samples, before and after calibration."""

from dataclasses import dataclass
from typing import Any

import torch

from rankmixup.evaluation.results import plain, wilson_interval
from rankmixup.evaluation.scores import Scores
from rankmixup.metrics.classwise import class_gaps
from rankmixup.metrics.inputs import per_sample
from rankmixup.metrics.rows import bin_index


@dataclass(frozen=True)
class ClassMetrics:
    """Test samples of one class; None where there are none."""

    accuracy: float | None
    """Share of them that is predicted right, also called recall, with Wilson's 95 % interval."""
    accuracy_low: float | None
    accuracy_high: float | None
    mean_confidence: float | None
    ece: float | None
    """Of these samples alone. It is not 0 in a calibrated model either: which label a sample has says something about its prediction."""
    nll: float | None
    classwise_ece: float
    """What the class adds to classwise ECE: the calibration error of its probability over all samples, one class against the rest."""


@dataclass(frozen=True)
class ClassResult:
    """One class."""

    index: int
    name: str | None
    n: int
    before: ClassMetrics
    after: ClassMetrics | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        stages = {stage: each and plain(vars(each)) for stage, each in (("before", self.before), ("after", self.after))}
        return {"class": self.index, "name": self.name, "n": self.n, **stages}


def class_results(test: Scores, calibrated: Scores | None = None, num_bins: int = 15) -> tuple[ClassResult, ...]:
    """All classes, in order."""
    classes = test.scores.shape[1]
    count = torch.bincount(test.labels.cpu(), minlength=classes).tolist()
    before, after = _stage(test, num_bins), [None] * classes if calibrated is None else _stage(calibrated, num_bins)
    names = test.class_names or (None,) * classes
    return tuple(ClassResult(*each) for each in zip(range(classes), names, count, before, after, strict=True))


def _stage(scores: Scores, num_bins: int) -> list[ClassMetrics]:
    labels, classes = scores.labels.cpu(), scores.scores.shape[1]
    columns = per_sample(
        lambda rows: torch.stack([rows.right_within(1), rows.confidence, rows.nll]).cpu(), scores.scores, scores.labels, scores.from_logits
    )
    right, confidence, _ = columns
    count = torch.bincount(labels, minlength=classes)
    means = torch.zeros(3, classes, dtype=torch.float64).index_add_(1, labels, columns) / count
    cells = labels * num_bins + bin_index(confidence, num_bins, scores.precision)
    ece = torch.bincount(cells, confidence - right, minlength=classes * num_bins).view(classes, num_bins).abs().sum(dim=1) / count
    error = class_gaps(scores.scores, scores.labels, num_bins, from_logits=scores.from_logits).abs().sum(dim=1).cpu() / len(labels)
    found = []
    for size, accuracy, sure, nll, own, whole in zip(count.tolist(), *means.tolist(), ece.tolist(), error.tolist(), strict=True):
        if size == 0:
            found.append(ClassMetrics(None, None, None, None, None, None, whole))
        else:
            found.append(ClassMetrics(accuracy, *wilson_interval(accuracy, size), sure, own, nll, whole))
    return found
