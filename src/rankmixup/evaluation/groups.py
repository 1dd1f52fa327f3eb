"""Metrics of groups of samples, each with the uncertainty of its own size, and tests of whether groups differ."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rankmixup import random
from rankmixup.evaluation.custom import custom_keys, custom_values
from rankmixup.evaluation.group_labels import GroupLabels
from rankmixup.evaluation.group_tests import (
    GAP_KEYS,
    POSITIVE_GAP_KEYS,
    Deviation,
    GroupedSamples,
    exact_test,
    permutation_tests,
    slope_test,
)
from rankmixup.evaluation.positive import Z95
from rankmixup.evaluation.registry import METRICS
from rankmixup.evaluation.replicates import read_samples, sorted_samples
from rankmixup.evaluation.results import Estimate, Metrics, Positive, all_metrics_of, plain
from rankmixup.evaluation.scores import Scores
from rankmixup.evaluation.significance import holm
from rankmixup.evaluation.uncertainty import all_metrics

MIN_SAMPLES = 10
"""Smaller groups are listed with their values alone: no interval, no verdict and no part in the tests of groups."""
DIFFER, NOT_SHOWN = "groups differ", "no difference shown"


@dataclass(frozen=True)
class GroupMetrics:
    """The samples of one group."""

    n: int
    mean_confidence: float
    overconfidence: float
    """Mean confidence minus accuracy; below 0 for an underconfident group."""
    metrics: Metrics
    positive: Positive | None = None
    """The positive class, if there is one."""

    @property
    def too_small(self) -> bool:
        """Whether there are too few samples for a verdict."""
        return self.n < MIN_SAMPLES

    def value(self, key: str) -> float | None:
        """A metric, or overconfidence; None where it is not defined."""
        if key == "overconfidence":
            return self.overconfidence
        estimate = all_metrics_of(self).get(key)
        return None if estimate is None else estimate.value

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        fields = {name: value for name, value in vars(self).items() if name != "positive" or value is not None}
        return plain({**fields, "too_small": self.too_small})


@dataclass(frozen=True)
class Gap:
    """How far groups are apart in one metric, and whether that is more than groups drawn at random show."""

    value: float
    """Largest minus smallest value of any group. For a calibration error, noise alone makes it large if a group is small."""
    largest: str
    """The groups with the largest and the smallest value."""
    smallest: str
    extreme: str
    """The group that deviates most from what permuted groups of its size show: by so many standard deviations."""
    observed: float
    expected: float
    deviation: float
    p_value: float
    """Share of permutations in which some group deviates by as much."""
    p_holm: float
    """Corrected over all metrics and groupings."""
    verdict: str

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        return plain(vars(self))


@dataclass(frozen=True)
class GroupStage:
    """All groups before or after calibration."""

    groups: dict[str, GroupMetrics]
    gaps: dict[str, Gap | None] = field(default_factory=dict)
    """By the keys of `GAP_KEYS`, behind those of `POSITIVE_GAP_KEYS` if there is a positive class.

    None where there is nothing to compare: fewer than two groups of `MIN_SAMPLES`, or infinite values.
    """

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        return plain(vars(self))


@dataclass(frozen=True)
class Grouping:
    """The groups of one grouping, such as all sites."""

    before: GroupStage
    after: GroupStage | None = None

    @property
    def stages(self) -> dict[str, GroupStage]:
        """Before and, if there was one, after calibration."""
        return {"before": self.before, **({"after": self.after} if self.after else {})}

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        return plain(vars(self))


def evaluate_groups(
    test: Scores,
    calibrated: Scores | None,
    groupings: Mapping[str, GroupLabels],
    estimate: Callable[[Scores], Metrics],
    describe: Callable[[Scores], Positive] | None = None,
    *,
    num_bins: int = 15,
    replicates: int = 1000,
    seed: int = 0,
) -> dict[str, Grouping]:
    """Each grouping before and after calibration.

    `estimate` gives the metrics of some scores, `describe` the positive class if there is one; `replicates` counts permutations.
    """

    def stage(scores: Scores) -> dict[str, GroupStage]:
        found = {name: _stage(scores, labels, estimate, describe, num_bins, replicates, seed) for name, labels in groupings.items()}
        return _corrected(found)

    before, after = stage(test), {} if calibrated is None else stage(calibrated)
    return {name: Grouping(before[name], after.get(name)) for name in groupings}


def _stage(
    scores: Scores,
    labels: GroupLabels,
    estimate: Callable[[Scores], Metrics],
    describe: Callable[[Scores], Positive] | None,
    num_bins: int,
    replicates: int,
    seed: int,
) -> GroupStage:
    samples = read_samples(scores.scores, scores.labels, num_bins=num_bins, from_logits=scores.from_logits)
    grouped = GroupedSamples.of(samples, labels.codes, len(labels.names), num_bins)
    over = grouped.values()["overconfidence"]
    groups: dict[str, GroupMetrics] = {}
    for code, (name, size) in enumerate(zip(labels.names, grouped.sizes.tolist(), strict=True)):
        part = _subset(scores, torch.from_numpy(np.flatnonzero(labels.codes == code)))
        metrics, positive = estimate(part) if size >= MIN_SAMPLES else _values_alone(part, num_bins), describe and describe(part)
        if positive and size < MIN_SAMPLES:
            values = {key: each and Estimate(each.value) for key, each in positive.metrics.items()}
            positive = replace(positive, metrics=values, p_value=None, verdict=None)
        accuracy = metrics["accuracy"]
        assert accuracy is not None
        groups[name] = GroupMetrics(size, accuracy.value + float(over[code]), float(over[code]), metrics, positive)
    tested, keys = grouped.sizes >= MIN_SAMPLES, (*(POSITIVE_GAP_KEYS if describe else ()), *GAP_KEYS)
    if int(tested.sum()) < 2:
        return GroupStage(groups, dict.fromkeys(keys))
    found = permutation_tests(grouped, tested, replicates, random.stream(seed, "group permutations"))
    if (of_class := next(iter(groups.values())).positive) is not None:
        is_positive = scores.labels == of_class.index
        samples = sorted_samples(scores.probs[:, of_class.index], is_positive, num_bins, precision=scores.precision)
        probability = GroupedSamples.of(samples, labels.codes, len(labels.names), num_bins)
        found |= _positive_tests(probability, tested, list(groups.values()))
        rng = random.stream(seed, "group permutations of the positive class")
        found["positive.ece"] = permutation_tests(probability, tested, replicates, rng)["ece"]
    return GroupStage(groups, {key: _gap(key, groups, found[key], labels.names) if key in found else None for key in keys})


def _positive_tests(grouped: GroupedSamples, tested: NDArray[np.bool_], groups: list[GroupMetrics]) -> dict[str, Deviation]:
    """The tests of how often the positive class occurs for its probability, where it and another occur, and of its slopes."""
    found: dict[str, Deviation] = {}
    classes = [group.positive for group in groups if group.positive]
    if 0 < grouped.columns["accuracy"].sum() < len(grouped.codes):
        gap = exact_test(grouped, tested)
        mean = max(classes[gap.group].mean_probability, 1e-9)  # all probabilities may be given as 0
        observed, expected = 1 - gap.observed / mean, 1 - gap.expected / mean
        found["positive.observed_over_expected"] = gap._replace(observed=observed, expected=expected, deviation=-gap.deviation)
    slopes = [each.metrics["slope"] or Estimate(0.0) for each in classes]
    errors = [math.inf if each.low is None or each.high is None else each.high - each.low for each in slopes]
    if sum(map(math.isfinite, errors)) > 1:
        found["positive.slope"] = slope_test(np.array([each.value for each in slopes]), np.array(errors) / (2 * Z95))
    return found


def _subset(scores: Scores, rows: torch.Tensor) -> Scores:
    rows = rows.to(scores.scores.device)
    return replace(scores, scores=scores.scores[rows], labels=scores.labels[rows], part=True)


def _values_alone(scores: Scores, num_bins: int) -> Metrics:
    values = all_metrics(scores.scores, scores.labels, num_bins=num_bins, from_logits=scores.from_logits, part=True)
    own = custom_values(scores, custom_keys(scores.scores.shape[1]))
    values |= {key: each.mean().item() for key, each in own.items()}
    return {key: None if (value := values.get(key)) is None else Estimate(value) for key in METRICS}


def _gap(key: str, groups: Mapping[str, GroupMetrics], found: Deviation, names: tuple[str, ...]) -> Gap:
    values = {name: value for name, group in groups.items() if not group.too_small and (value := group.value(key)) is not None}
    largest, smallest = max(values, key=values.__getitem__), min(values, key=values.__getitem__)
    return Gap(
        value=values[largest] - values[smallest],
        largest=largest,
        smallest=smallest,
        extreme=names[found.group],
        observed=found.observed,
        expected=found.expected,
        deviation=found.deviation,
        p_value=found.p_value,
        p_holm=found.p_value,
        verdict=NOT_SHOWN,
    )


def _corrected(stages: dict[str, GroupStage]) -> dict[str, GroupStage]:
    """With p-values corrected over all gaps, and the verdicts that follow."""
    places = [(name, key, gap) for name, stage in stages.items() for key, gap in stage.gaps.items() if gap is not None]
    adjusted = holm([gap.p_value for *_, gap in places]) if places else []
    gaps = {name: dict(stage.gaps) for name, stage in stages.items()}
    for (name, key, gap), p_value in zip(places, adjusted, strict=True):
        gaps[name][key] = replace(gap, p_holm=p_value, verdict=DIFFER if p_value < 0.05 else NOT_SHOWN)
    return {name: replace(stage, gaps=gaps[name]) for name, stage in stages.items()}
