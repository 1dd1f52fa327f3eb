"""Several models on one test set: do they differ from the baseline by more than sampling noise?"""

from collections.abc import Mapping
from dataclasses import replace
from math import erfc, isfinite, sqrt
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankmixup import random
from rankmixup.errors import InvalidInput, require, shown, unknown_name
from rankmixup.evaluation.custom import custom_values, resampled_values
from rankmixup.evaluation.evaluation import Array, as_scores, estimate_metrics
from rankmixup.evaluation.registry import METRICS, PASS_KEYS
from rankmixup.evaluation.replicates import Samples, bootstrap, ranked_values, read_samples
from rankmixup.evaluation.resampling import bootstrap_weights
from rankmixup.evaluation.results import Compared, Comparison, Difference, percentiles
from rankmixup.evaluation.scores import Scores
from rankmixup.evaluation.significance import holm, mcnemar
from rankmixup.evaluation.statistics import bin_statistics, binned, gap_floor, gap_interval
from rankmixup.metrics.inputs import top_label
from rankmixup.ops import as_tensor


def compare(
    models: Mapping[str, Array],
    target: Array,
    *,
    from_logits: bool = True,
    baseline: str | None = None,
    metric: str = "ece",
    num_bins: int = 15,
    replicates: int = 1000,
    seed: int = 0,
) -> Comparison:
    """Compare models on the same samples by `metric` (paired bootstrap) and by accuracy (McNemar's test).

    Args:
        models: Scores `[N, K]` by name of the model, as tensors, arrays or lists.
        target: Class indices `[N]`.
        from_logits: Whether the scores are logits; probabilities otherwise.
        baseline: The model that all others are compared with; the first unless given.
        metric: A key of `METRICS`.
        num_bins: Bins of binned metrics.
        replicates: Resamples behind each interval and p-value.
        seed: Seed of the resampling.

    Returns:
        Estimates of each model and differences to the baseline, with p-values corrected by Holm's method.

    >>> logits = [[1.0, -1.0], [-2.0, 2.0], [-3.0, 3.0], [4.0, -4.0]]
    >>> found = compare({"good": logits, "bad": [row[::-1] for row in logits]}, [0, 1, 1, 0], replicates=10)
    >>> found.models["bad"]["accuracy"].difference.value
    -1.0
    """
    require(isinstance(models, Mapping), f"models must name scores, as in {{'a': logits_a, 'b': logits_b}}, got {shown(models)}")
    scores = {name: as_scores(each, target, from_logits) for name, each in models.items()}
    return compare_scores(scores, baseline=baseline, metric=metric, num_bins=num_bins, replicates=replicates, seed=seed)


def compare_scores(
    models: Mapping[str, Scores],
    *,
    baseline: str | None = None,
    metric: str = "ece",
    num_bins: int = 15,
    replicates: int = 1000,
    seed: int = 0,
) -> Comparison:
    """As `compare`, for `Scores`, each of which has its labels and may be logits or probabilities."""
    require(len(models) >= 2, f"a comparison must have at least two models, got {len(models)}")
    if metric not in METRICS:
        raise unknown_name("metric", metric, METRICS)
    baseline = next(iter(models)) if baseline is None else baseline
    if baseline not in models:
        raise unknown_name("baseline", baseline, models)
    first = models[baseline]
    size, classes = first.scores.shape
    for name, scores in models.items():
        require(len(scores) == size, f"{name} and {baseline} must be scores of the same samples, got {len(scores)} and {size}")
        differ = int((scores.labels != first.labels).sum())
        require(differ == 0, f"{name} and {baseline} must have the same labels in the same order, {differ} of {size} differ")
        others = scores.scores.shape[1]
        require(others == classes, f"{name} and {baseline} must have the same number of classes, got {others} and {classes}")
    keys = list(dict.fromkeys((metric, "accuracy")))
    found: dict[str, dict[str, Compared]] = {}
    for name, scores in models.items():
        estimates = estimate_metrics(scores, num_bins=num_bins, replicates=replicates, seed=seed)
        if estimates[metric] is None:
            raise InvalidInput(f"metric must be one that {name} has, it has no {metric}")
        found[name] = {key: Compared(estimate) for key in keys if (estimate := estimates[key]) is not None}
    places = [(name, key) for name in models if name != baseline for key in keys]
    differences = [_difference(models[name], first, key, num_bins, replicates, seed) for name, key in places]
    corrected = holm([difference.p_value for difference in differences])
    for (name, key), difference, p_holm in zip(places, differences, corrected, strict=True):
        direction = "better" if METRICS[key].better(difference.value, 0.0) else "worse"
        difference = replace(difference, p_holm=p_holm, verdict="no difference shown" if p_holm >= 0.05 else direction)
        found[name][key] = replace(found[name][key], difference=difference)
    return Comparison(metric, baseline, size, classes, found)


def _difference(model: Scores, baseline: Scores, key: str, num_bins: int, replicates: int, seed: int) -> Difference:
    same_kind, target, rng = model.from_logits == baseline.from_logits, model.labels, random.stream(seed, "comparison", key)
    first, second = (each.scores if same_kind else each.probs for each in (model, baseline))
    from_logits = same_kind and model.from_logits
    paired = paired_comparison(first, second, target, key, from_logits=from_logits, num_bins=num_bins, replicates=replicates, rng=rng)
    if key != "accuracy":
        return paired
    correct = [top_label(scores, target, from_logits=from_logits)[1].bool() for scores in (first, second)]
    return replace(paired, p_value=mcnemar(*correct), test="McNemar")


def paired_comparison(
    logits_a: Float[Tensor, "N K"],
    logits_b: Float[Tensor, "N J"],
    target: Int[Tensor, " N"],
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
    keys = [name for name, metric in METRICS.items() if metric.bins is not None or metric.interval != "inversion"]
    require(isinstance(key, str) and key in keys, f"key must be one of {', '.join(keys)}, got {shown(key)}")
    least = METRICS[key].min_classes
    both = (logits_a, logits_b)
    classes = min(max(as_tensor("logits", logits).shape[-1:], default=0) for logits in both)
    require(classes >= least, f"{key} needs at least {least} classes, got {classes}")
    scores = [] if key in PASS_KEYS else [Scores(logits, target, from_logits) for logits in both]
    custom = [custom_values(each, [key])[key] for each in scores]
    columns = [{key: column} for column in custom if column.ndim == 1] or [{}, {}]
    options: dict[str, Any] = {"num_bins": num_bins, "from_logits": from_logits}
    models = [read_samples(logits, target, more=more, **options) for logits, more in zip(both, columns, strict=True)]
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
    correlation = torch.corrcoef(torch.stack(values))[0, 1].nan_to_num().item()
    centre = a.centre - b.centre

    def margin(of_a: float, of_b: float) -> float:
        return sqrt(max(of_a**2 + of_b**2 - 2 * correlation * of_a * of_b, 0.0))

    below, above = margin(a.centre - a.low, b.high - b.centre), margin(a.high - a.centre, b.centre - b.low)
    towards_zero = below if centre > 0 else above
    # 1.96 standard errors fit into the side of the interval that looks towards 0.
    p_value = erfc(1.96 * abs(centre) / towards_zero / sqrt(2)) if towards_zero > 0 else float(centre == 0)
    return Difference(a.value - b.value, max(centre - below, -1.0), min(centre + above, 1.0), p_value)
