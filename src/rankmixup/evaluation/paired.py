"""The difference between two models on the same samples, with its interval and p-value."""

from dataclasses import replace
from math import erfc, isfinite, sqrt
from typing import Any

import torch

from rankmixup import random
from rankmixup.errors import require, shown
from rankmixup.evaluation.custom import custom_values, resampled_values
from rankmixup.evaluation.intervals import Inverted
from rankmixup.evaluation.registry import METRICS, PASS_KEYS
from rankmixup.evaluation.replicates import Samples, bootstrap, ranked_values, read_samples
from rankmixup.evaluation.resampling import bootstrap_weights
from rankmixup.evaluation.results import Difference, percentiles
from rankmixup.evaluation.scores import Scores
from rankmixup.evaluation.significance import mcnemar
from rankmixup.evaluation.statistics import bin_statistics, binned, gap_floor, gap_interval
from rankmixup.metrics.inputs import Logits, Target, scores_and_labels, top_label


def comparable_keys() -> list[str]:
    """Metrics whose difference has an interval: all but those whose own interval needs more than gaps of bins."""
    return [name for name, metric in METRICS.items() if metric.bins is not None or metric.interval != "inversion"]


def paired_difference(
    model: Scores, baseline: Scores, key: str, *, num_bins: int = 15, replicates: int = 1000, seed: int = 0
) -> Difference:
    """As `paired_comparison`, for `Scores`, which may be logits or probabilities; accuracies by McNemar's test."""
    same_kind, target, rng = model.from_logits == baseline.from_logits, model.labels, random.stream(seed, "comparison", key)
    first, second = (each.scores if same_kind else each.probs for each in (model, baseline))
    from_logits = same_kind and model.from_logits
    paired = paired_comparison(first, second, target, key, from_logits=from_logits, num_bins=num_bins, replicates=replicates, rng=rng)
    if key != "accuracy":
        return paired
    correct = [top_label(scores, target, from_logits=from_logits)[1].bool() for scores in (first, second)]
    return replace(paired, p_value=mcnemar(*correct), test="McNemar")


def paired_comparison(
    logits_a: Logits,
    logits_b: Logits,
    target: Target,
    key: str = "ece",
    *,
    from_logits: bool = True,
    num_bins: int = 15,
    replicates: int = 1000,
    rng: torch.Generator,
) -> Difference:
    """Difference of a metric between two models on the same samples, with its 95 % interval and p-value.

    Samples are resampled jointly, so that what both models find easy or hard cancels. Means, AURC, E-AURC and AUROC have the percentile
    interval of the difference. Errors of calibration are biased, each by its own amount: their two intervals by test
    inversion are combined (Zou and Donner's MOVER), with the correlation of the joint replicates. That interval lies around the
    difference of the values without bias, of which `difference`, that of the plain values, may be off.
    """
    keys = comparable_keys()
    require(isinstance(key, str) and key in keys, f"key must be one of {', '.join(keys)}, got {shown(key)}")
    least = METRICS[key].min_classes
    both, targets = zip(*(scores_and_labels(logits, target, from_logits=from_logits) for logits in (logits_a, logits_b)), strict=True)
    classes = min(logits.shape[1] for logits in both)
    require(classes >= least, f"{key} needs at least {least} classes, got {classes}")
    scores = [] if key in PASS_KEYS else [Scores(logits, labels, from_logits) for logits, labels in zip(both, targets, strict=True)]
    custom = [custom_values(each, [key])[key] for each in scores]
    columns = [{key: column} for column in custom if column.ndim == 1] or [{}, {}]
    options: dict[str, Any] = {"num_bins": num_bins, "from_logits": from_logits}
    models = [read_samples(logits, targets[0], more=more, **options) for logits, more in zip(both, columns, strict=True)]
    if METRICS[key].bins is not None:
        return _combined(key, models, replicates, rng)
    if key in models[0].means:
        # Of each sample first, so that what two models share cancels to exactly 0.
        of_samples = [
            torch.empty(len(each), dtype=torch.float64).index_copy_(0, each.order.long(), each.means[key].double()) for each in models
        ]
        gap = of_samples[0] - of_samples[1]
        difference, deviation = gap.mean().item(), (gap - gap.mean()).float()
        draws = [weights @ deviation for _, weights in bootstrap_weights(len(gap), replicates, rng)]
        replicated = difference + torch.cat(draws).double() / len(gap)
    elif key in PASS_KEYS:
        a, b = (ranked_values(torch.ones(1, len(target)), samples)[key].item() for samples in models)
        draws = [each.ranked[key] for each in bootstrap(models, replicates, rng)]
        difference, replicated = a - b, draws[0] - draws[1]
    else:
        difference = (custom[0] - custom[1]).item()
        replicated = resampled_values(key, scores, replicates, rng).diff(dim=0)[0].neg()
    replicated = replicated[replicated.isfinite()]
    require(len(replicated) > 0 and isfinite(difference), f"{key} of these predictions must be a finite number, which it is not")
    beyond = min(int((replicated <= 0).sum()), int((replicated >= 0).sum()))
    return Difference(difference, *percentiles(replicated), min(1.0, 2 * (1 + beyond) / (1 + len(replicated))))


def _combined(key: str, models: list[Samples], replicates: int, rng: torch.Generator) -> Difference:
    pairs = list(zip(models, bootstrap(models, replicates, rng, ranked=False), strict=True))
    a, b = (gap_interval(samples, key, draw, gap_floor(samples, key, replicates, rng)) for samples, draw in pairs)
    values = [bin_statistics(samples)[key](binned(draw, key)) for samples, draw in pairs]
    return combined_difference(a, b, torch.corrcoef(torch.stack(values))[0, 1].nan_to_num().item())


def combined_difference(a: Inverted, b: Inverted, correlation: float) -> Difference:
    """Difference of two biased errors from their intervals by test inversion and the correlation of their replicates (MOVER)."""
    centre = a.centre - b.centre

    def margin(of_a: float, of_b: float) -> float:
        return sqrt(max(of_a**2 + of_b**2 - 2 * correlation * of_a * of_b, 0.0))

    below, above = margin(a.centre - a.low, b.high - b.centre), margin(a.high - a.centre, b.centre - b.low)
    towards_zero = below if centre > 0 else above
    # 1.96 standard errors fit into the side of the interval that looks towards 0.
    p_value = erfc(1.96 * abs(centre) / towards_zero / sqrt(2)) if towards_zero > 0 else float(centre == 0)
    return Difference(a.value - b.value, max(centre - below, -1.0), min(centre + above, 1.0), p_value)
