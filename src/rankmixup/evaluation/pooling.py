"""Runs that differ by their seed alone as one model."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

import torch

from rankmixup.evaluation.registry import metric_named
from rankmixup.evaluation.results import Evaluation, Metrics, Positive, all_metrics_of
from rankmixup.evaluation.scores import Scores
from rankmixup.evaluation.significance import metrics_over_seeds, verdict_over_seeds


def pooled(runs: Mapping[int, Evaluation], source: str) -> Evaluation:
    """One model of evaluations by seed: metrics are means over seeds with Student's t interval, scores those of all runs together.

    Classes, groups and unknown sets, which have tests that are about one network, are left out where there are several runs.
    """
    first, *others = runs.values()
    found = replace(first, source=source, runs=dict(sorted(runs.items())))
    if not others:
        return found
    parts, fits = [first, *others], [each.calibration for each in runs.values() if each.calibration]
    calibration = None
    if len(fits) == len(parts):
        calibration = replace(
            next((fit for fit in fits if not fit.converged), fits[0]),
            parameters={},
            same_data=any(fit.same_data for fit in fits),
            metrics=_means([fit.metrics for fit in fits]),
            positive=_positive([fit.positive for fit in fits]),
        )
    test, calibrated = (_together(each) for each in ([one.test for one in parts], [one.calibrated for one in parts]))
    metrics, positive = _means([each.metrics for each in parts]), _positive([each.positive for each in parts])
    found = replace(found, metrics=metrics, calibration=calibration, positive=positive, test=test, calibrated=calibrated)
    return replace(found, ood={}, ood_scores={}, groups={})


def deviation(found: Evaluation, key: str, *, calibrated: bool = False) -> float | None:
    """Standard deviation over the seeds of a metric, one of `all_metrics_of`; None for a single run, or if one lacks the metric."""
    stages = [run.calibration if calibrated and run.calibration else run for run in found.runs.values()]
    values = [estimate.value for each in stages if (estimate := all_metrics_of(each).get(key)) is not None]
    return stdev(values) if len(values) == len(stages) > 1 else None


def _means(seeds: Sequence[Metrics], kind: str = "") -> Metrics:
    """Student's interval knows nothing of where a metric ends."""
    found = metrics_over_seeds(seeds)
    for key, each in found.items():
        if each is not None and each.low is not None and each.high is not None:
            metric = metric_named(f"{kind}{key}")
            found[key] = replace(each, low=max(metric.least, each.low), high=min(metric.most, each.high))
    return found


def _together(parts: Sequence[Scores | None]) -> Scores | None:
    scores = [each for each in parts if each is not None]
    if len(scores) < len(parts):
        return None
    values, labels = torch.cat([each.scores for each in scores]), torch.cat([each.labels for each in scores])
    return replace(scores[0], scores=values, labels=labels)


def _positive(parts: Sequence[Positive | None]) -> Positive | None:
    found = [each for each in parts if each is not None]
    if not found:
        return None
    means: dict[str, Any] = {key: fmean(getattr(each, key) for each in found) for key in ("frequency", "mean_probability")}
    means["p_value"] = None  # each seed has its own
    metrics = _means([each.metrics for each in found], "positive.")
    return replace(found[0], **means, metrics=metrics, verdict=verdict_over_seeds([each.verdict for each in found]))
