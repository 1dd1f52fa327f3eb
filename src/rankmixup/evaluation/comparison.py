"""Several models on one test set: do they differ from the baseline by more than sampling noise?"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rankmixup.errors import InvalidInput, require, shown, unknown_name
from rankmixup.evaluation.conditions import ComparisonCondition, listed_conditions
from rankmixup.evaluation.evaluation import Array, as_scores, evaluate_scores
from rankmixup.evaluation.paired import comparable_keys, paired_difference
from rankmixup.evaluation.pooling import deviation, pooled
from rankmixup.evaluation.registry import METRICS
from rankmixup.evaluation.results import Compared, Comparison, Difference, Estimate, Evaluation
from rankmixup.evaluation.scores import Scores
from rankmixup.evaluation.significance import holm, seeds_difference
from rankmixup.posthoc import Calibrator


def compare(
    models: Mapping[str, Array],
    target: Array,
    *,
    from_logits: bool = True,
    calibrate_on: Mapping[str, tuple[Array, Array] | Calibrator] | None = None,
    calibrate_with: str = "temperature",
    objective: str | None = None,
    baseline: str | None = None,
    metric: str | Sequence[str] = "ece",
    fail_if: str | Sequence[str] = (),
    num_bins: int = 15,
    replicates: int = 1000,
    seed: int = 0,
) -> Comparison:
    """Compare models on the same samples by each `metric` (paired bootstrap) and by accuracy (McNemar's test).

    Args:
        models: Scores `[N, K]` by name of the model, as tensors, arrays or lists; of class 1 of two, `[N]` or `[N, 1]`.
        target: Class indices `[N]`.
        from_logits: Whether the scores are logits; probabilities otherwise.
        calibrate_on: Held-out scores and labels of each model, or a fitted calibrator, by the same names; the comparison is then that of
            the calibrated models.
        calibrate_with: Name of a calibrator, from `rankmixup.list_calibrators()`.
        objective: What the calibrator minimises, by default the first of its `objectives`.
        baseline: The model that all others are compared with; the first unless given.
        metric: A key of `METRICS`, several, or "all" that the scores have.
        fail_if: Conditions such as `"b.ece - a.ece > 1%:low"`; those that hold are `failed` of the result.
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
    rule = "calibrate_on must name held-out scores and labels of each model, as in {'a': (logits, labels), 'b': (logits, labels)}"
    require(calibrate_on is None or isinstance(calibrate_on, Mapping), f"{rule}, got {shown(calibrate_on)}")
    for name in models:
        require(isinstance(name, str) and bool(name.strip()), f"models must be named by texts, got {shown(name)}")
    scores = {name: as_scores(each, target, from_logits) for name, each in models.items()}
    held_out: dict[str, Scores | Calibrator] = {}
    for name, each in (calibrate_on or {}).items():
        is_pair = isinstance(each, tuple | list) and len(each) == 2
        require(is_pair or isinstance(each, Calibrator), f"{rule}, got {shown(each)} for {name!r}")
        held_out[name] = each if isinstance(each, Calibrator) else as_scores(*each, from_logits)
    choices: dict[str, Any] = {"calibrate_with": calibrate_with, "objective": objective, "baseline": baseline, "metric": metric}
    settings: dict[str, Any] = {"fail_if": fail_if, "num_bins": num_bins, "replicates": replicates, "seed": seed}
    return compare_scores(scores, held_out if calibrate_on is not None else None, **choices, **settings)


def compare_scores(
    models: Mapping[str, Scores],
    held_out: Mapping[str, Scores | Calibrator] | None = None,
    *,
    fitted_on: Mapping[str, str] | None = None,
    pools: Mapping[str, Mapping[int, str]] | None = None,
    calibrate_with: str = "temperature",
    objective: str | None = None,
    baseline: str | None = None,
    metric: str | Sequence[str] = "ece",
    fail_if: str | Sequence[str] = (),
    num_bins: int = 15,
    replicates: int = 1000,
    seed: int = 0,
) -> Comparison:
    """As `compare`, for `Scores`, each of which has its labels and may be logits or probabilities; `fitted_on` names the held-out ones.

    `pools` has by name those that are one model (see `pooled`): the names of its runs in `models`, by their seed.
    """
    keys, pools = compared_keys(metric), pools or {}
    names = compared_names(models, pools)
    first = _baseline(names, baseline)
    for text in listed_conditions(fail_if):
        ComparisonCondition.parse(text, names, keys)  # refused before any work
    check_same_samples(models, first if first in models else next(iter(pools[first].values())))
    for name in models if held_out is not None else ():
        require(name in (held_out or {}), f"calibrate_on must have held-out scores of every model, it has none of {name!r}")
    for name in held_out or {}:
        if name not in models:
            raise unknown_name("model in calibrate_on", name, models)
    resampling: dict[str, Any] = {"num_bins": num_bins, "replicates": replicates, "seed": seed}
    evaluations = {
        name: evaluate_scores(
            scores,
            (held_out or {}).get(name),
            source=name,
            fitted_on=(fitted_on or {}).get(name, "calibrate_on"),
            calibrate_with=calibrate_with,
            objective=objective,
            **resampling,
        )
        for name, scores in models.items()
    }
    for name, runs in pools.items():
        evaluations[name] = pooled({seed: evaluations.pop(run) for seed, run in runs.items()}, name)
    evaluations = {name: evaluations[name] for name in names}
    chosen: dict[str, Any] = {"baseline": first, "metric": metric, "fail_if": fail_if, "calibrated": held_out is not None}
    return compare_evaluations(evaluations, **chosen, **resampling)


def compare_evaluations(
    evaluations: Mapping[str, Evaluation],
    *,
    calibrated: bool = False,
    baseline: str | None = None,
    metric: str | Sequence[str] = "ece",
    fail_if: str | Sequence[str] = (),
    num_bins: int = 15,
    replicates: int = 1000,
    seed: int = 0,
) -> Comparison:
    """As `compare`, for evaluations of one test set that hold their scores, before calibration or after it."""
    keys = compared_keys(metric)
    scores: dict[str, dict[int, Scores]] = {}
    for name, each in evaluations.items():
        found = {
            seed: run.calibrated if calibrated else run.test for seed, run in (each.runs or {-1: each}).items()
        }  # -1: of no run, which has a seed
        scores[name] = {seed: one for seed, one in found.items() if one is not None}
        rule = f"{name} must be an evaluation that holds its scores{' after calibration' if calibrated else ''}, it does not"
        require(len(scores[name]) == len(found), rule)
    first = _baseline(list(scores), baseline)
    every = {f"{name}, seed {seed}" if len(runs) > 1 else name: one for name, runs in scores.items() for seed, one in runs.items()}
    check_same_samples(every, next(iter(every)) if len(scores[first]) > 1 else first)
    models: dict[str, dict[str, Compared]] = {}
    found_of = {name: each.calibration.metrics if calibrated and each.calibration else each.metrics for name, each in evaluations.items()}
    if metric == "all" or (not isinstance(metric, str) and "all" in metric):
        keys = [key for key in keys if all(found[key] is not None for found in found_of.values())]
    conditions = [ComparisonCondition.parse(text, scores, keys) for text in listed_conditions(fail_if)]
    for name, each in evaluations.items():
        estimates = found_of[name]
        missing = next((key for key in keys if estimates[key] is None), None)
        require(missing is None, f"metric must be one that {name} has, it has no {missing}")
        before = each.metrics if calibrated else {}
        models[name] = {
            key: Compared(estimate, before=before.get(key), deviation=deviation(each, key, calibrated=calibrated))
            for key in keys
            if (estimate := estimates[key]) is not None
        }

    def difference(model: str, other: str, key: str) -> Difference | None:
        """Over the seeds that both have, if these are several; else of one run of each, over samples; None if neither is possible."""
        shared = [each for each in scores[model] if each in scores[other]]
        if len(shared) > 1:
            one, two = (evaluations[name].runs for name in (model, other))
            return seeds_difference(
                [one[each].value(key, calibrated=calibrated) - two[each].value(key, calibrated=calibrated) for each in shared]
            )
        if key not in comparable_keys():
            return None
        first_run, second_run = (scores[name][shared[0] if shared else next(iter(scores[name]))] for name in (model, other))
        found = paired_difference(first_run, second_run, key, num_bins=num_bins, replicates=replicates, seed=seed)
        several = len(scores[model]) > 1 or len(scores[other]) > 1
        return replace(found, test=f"{found.test}, one run of each") if several else found

    places = [(name, key) for name in models if name != first for key in keys]
    differences = {place: tested for place in places if (tested := difference(place[0], first, place[1])) is not None}
    corrected = holm([difference.p_value for difference in differences.values()])
    for ((name, key), tested), p_holm in zip(differences.items(), corrected, strict=True):
        direction = "better" if METRICS[key].better(tested.value, 0.0) else "worse"
        tested = replace(tested, p_holm=p_holm, verdict="no difference shown" if p_holm >= 0.05 else direction)
        models[name][key] = replace(models[name][key], difference=tested)

    def number(condition: ComparisonCondition) -> Estimate | Difference:
        """What a condition is about; differences between two models that both are not the baseline are computed for it alone."""
        model, other, key = condition.model, condition.other, condition.key
        if other is None:
            return models[model][key].estimate
        shown, turned = (models[each][key].difference for each in (model, other))
        if other == first and shown is not None:
            return shown
        found = -turned if model == first and turned is not None else difference(model, other, key)
        if found is None:
            raise InvalidInput(f"condition {condition.text!r} must be about a metric whose difference has an interval, {key} has none")
        return found

    failed = tuple(condition.text for condition in conditions if condition.holds(number(condition)))
    fits = {name: each.calibration for name, each in evaluations.items() if each.calibration} if calibrated else None
    seeds = {name: tuple(each.runs) for name, each in evaluations.items() if len(each.runs) > 1}
    of_first = evaluations[first]
    return Comparison(keys[0], first, of_first.n, of_first.num_classes, models, fits, failed, seeds)


def compared_keys(metric: str | Sequence[str]) -> list[str]:
    """The metrics of a comparison: those that were asked for, or "all", and accuracy."""
    asked = [metric] if isinstance(metric, str) else metric
    fine = isinstance(asked, list | tuple) and all(isinstance(key, str) for key in asked)
    require(fine, f"metric must be the name of a metric, or several, got {shown(metric)}")
    comparable = comparable_keys()
    if "all" in asked:
        return list(METRICS)
    for key in asked:
        if key not in METRICS:
            raise unknown_name("metric", key, METRICS)
        require(key in comparable, f"metric must be one whose difference has an interval: {', '.join(comparable)}; got {key!r}")
    return list(dict.fromkeys([*asked, "accuracy"]))


def compared_names(models: Iterable[str], pools: Mapping[str, Mapping[int, str]]) -> list[str]:
    """Names of models, in order, where those of each of `pools` are one."""
    pool_of = {run: name for name, runs in pools.items() for run in runs.values()}
    return list(dict.fromkeys(pool_of.get(name, name) for name in models))


def check_same_samples(models: Mapping[str, Scores], baseline: str) -> None:
    """Refuse models that are not of the same samples in the same order, which have no paired difference."""
    first = models[baseline]
    size, classes = first.scores.shape
    for name, scores in models.items():
        require(len(scores) == size, f"{name} and {baseline} must be scores of the same samples, got {len(scores)} and {size}")
        differ = int((scores.labels != first.labels).sum())
        require(differ == 0, f"{name} and {baseline} must have the same labels in the same order, {differ} of {size} differ")
        others = scores.scores.shape[1]
        require(others == classes, f"{name} and {baseline} must have the same number of classes, got {others} and {classes}")


def _baseline(models: Sequence[str], baseline: str | None) -> str:
    require(len(models) >= 2, f"a comparison must have at least two models, got {len(models)}")
    first = models[0] if baseline is None else baseline
    if first not in models:
        raise unknown_name("baseline", first, models)
    return first
