"""Several models on one test set: is a difference to the baseline more than chance?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rankmixup import random
from rankmixup.errors import InvalidInput, require, unknown_name
from rankmixup.evaluation.evaluation import metric_entries, plain
from rankmixup.evaluation.registry import METRICS
from rankmixup.evaluation.scores import Scores
from rankmixup.evaluation.uncertainty import holm, mcnemar, paired_comparison
from rankmixup.metrics.inputs import top_label

__all__ = ["ComparisonReport", "compare_scores"]


@dataclass(frozen=True)
class ComparisonReport:
    """Values of each model and their differences to the baseline, for one metric and for accuracy. Fractions."""

    metric: str
    baseline: str
    n: int
    num_classes: int
    models: dict[str, dict[str, dict[str, Any]]]
    """Model to metric key to value, low, high, floor, p_value, verdict and `difference` (None for the baseline).

    A difference has value, low, high, p_value, p_holm (corrected over all differences here), test and verdict.
    """

    def to_dict(self) -> dict[str, Any]:
        """The JSON that `rankmixup compare --json` prints."""
        return {"schema": 1, **plain(vars(self))}


def compare_scores(
    models: Mapping[str, Scores],
    *,
    baseline: str | None = None,
    metric: str = "ece",
    num_bins: int = 15,
    replicates: int = 1000,
    seed: int = 0,
) -> ComparisonReport:
    """Compare models by `metric` (paired bootstrap) and by accuracy (McNemar's test), p-values corrected by Holm.

    All must be scores of the same samples in the same order. The baseline is the first unless named.

    >>> import torch
    >>> labels = torch.tensor([0, 1, 1, 0])
    >>> good, bad = (Scores(sign * torch.tensor([[1.0, -1], [-2, 2], [-3, 3], [4, -4]]), labels) for sign in (1, -1))
    >>> report = compare_scores({"good": good, "bad": bad}, replicates=10)
    >>> report.models["bad"]["accuracy"]["difference"]["value"]
    -1.0
    """
    require(len(models) >= 2, f"a comparison must have at least two models, got {len(models)}")
    require(replicates >= 1, f"replicates must be at least 1, got {replicates}")
    if metric not in METRICS:
        raise unknown_name("metric", metric, METRICS)
    baseline = next(iter(models)) if baseline is None else baseline
    if baseline not in models:
        raise unknown_name("baseline", baseline, models)
    for name, scores in models.items():
        _require_same_samples(baseline, models[baseline], name, scores)
    keys = list(dict.fromkeys((metric, "accuracy")))
    found = {}
    for name, scores in models.items():
        entries = metric_entries(scores, num_bins=num_bins, replicates=replicates, seed=seed)
        if entries[metric] is None:
            raise InvalidInput(f"metric must be one that {name} has, it has no {metric}")
        found[name] = {key: {**(entries[key] or {}), "difference": None} for key in keys}
    others = [name for name in models if name != baseline]
    for name in others:
        for key in keys:
            rng = random.stream(seed, "comparison", key)
            found[name][key]["difference"] = _difference(models[name], models[baseline], key, num_bins, replicates, rng)
    differences = [(key, found[name][key]["difference"]) for name in others for key in keys]
    for (key, difference), adjusted in zip(differences, holm([each["p_value"] for _, each in differences]), strict=True):
        difference |= {"p_holm": adjusted, "verdict": _verdict(key, difference["value"], adjusted)}
    first = models[baseline]
    return ComparisonReport(metric, baseline, len(first), first.scores.shape[1], found)


def _require_same_samples(baseline: str, first: Scores, name: str, scores: Scores) -> None:
    require(len(scores) == len(first), f"{name} and {baseline} must be scores of the same samples, got {len(scores)} and {len(first)}")
    differ = (scores.labels != first.labels).nonzero()
    require(
        len(differ) == 0,
        f"{name} and {baseline} must have the same labels in the same order, {len(differ)} of {len(first)} differ",
    )
    classes = scores.scores.shape[1], first.scores.shape[1]
    require(classes[0] == classes[1], f"{name} and {baseline} must have the same number of classes, got {classes[0]} and {classes[1]}")


def _difference(model: Scores, baseline: Scores, key: str, num_bins: int, replicates: int, rng: Any) -> dict[str, Any]:
    same_kind = model.from_logits == baseline.from_logits
    first, second = (each.scores if same_kind else each.probs for each in (model, baseline))
    from_logits = same_kind and model.from_logits
    paired = paired_comparison(first, second, model.labels, key, from_logits=from_logits, num_bins=num_bins, replicates=replicates, rng=rng)
    p_value, test = paired.p_value, "paired bootstrap"
    if key == "accuracy":
        correct = [top_label(scores, model.labels, from_logits=from_logits)[1].bool() for scores in (first, second)]
        p_value, test = mcnemar(*correct), "McNemar"
    return {"value": paired.difference, "low": paired.low, "high": paired.high, "p_value": p_value, "test": test}


def _verdict(key: str, difference: float, p_value: float) -> str:
    if p_value >= 0.05:
        return "no difference shown"
    return "better" if METRICS[key].better(difference, 0.0) else "worse"
