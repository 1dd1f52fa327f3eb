"""Evaluation of one set of scores: every metric with its uncertainty, before and after calibration, and OOD detection."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from numpy.typing import NDArray
from torch import Tensor, nn

from rankmixup import random
from rankmixup.errors import InvalidInput, require, require_whole, shown
from rankmixup.evaluation.acceptance import Threshold, asked_accuracy, check_threshold, choose_threshold
from rankmixup.evaluation.detection import detect_all
from rankmixup.evaluation.group_labels import Values, all_labels
from rankmixup.evaluation.groups import evaluate_groups
from rankmixup.evaluation.positive import describe_positive, positive_index
from rankmixup.evaluation.registry import METRICS
from rankmixup.evaluation.resampling import check_replicates
from rankmixup.evaluation.results import Calibration, Evaluation, Metrics, Protocol
from rankmixup.evaluation.scores import Scores
from rankmixup.evaluation.uncertainty import metric_uncertainty
from rankmixup.metrics.ood import OODKind
from rankmixup.metrics.rows import check_num_bins
from rankmixup.ops import as_tensor
from rankmixup.posthoc import CALIBRATORS, Calibrator, TemperatureScaling
from rankmixup.types import LogitsOf, call_model, evaluating, map_leaves

Array = Tensor | NDArray[np.generic] | Sequence[Any]
"""Tensors, numpy arrays or lists."""
AcceptAt = Threshold | str | float | None
"""The accuracy of what is accepted, or a threshold that was chosen for one."""


def evaluate(
    logits: Array | nn.Module,
    target: Array | Iterable[Any],
    *,
    logits_of: LogitsOf | None = None,
    calibrate_on: tuple[Array, Array] | Calibrator | None = None,
    objective: str | None = None,
    num_bins: int = 15,
    from_logits: bool = True,
    calibrate_with: str = "temperature",
    ood: Mapping[str, Array] | None = None,
    score: OODKind = "entropy",
    positive: int | str | None = None,
    replicates: int = 1000,
    seed: int = 0,
    source: str = "scores",
    groups: Values | Mapping[str, Values] | None = None,
    accept_at: AcceptAt = None,
) -> Evaluation:
    """Metrics of test scores with intervals and noise floors, and of the same scores after calibration on held-out ones.

    Args:
        logits: Test scores `[N, K]`, or for two classes those of class 1, `[N]` or `[N, 1]`: a tensor, an array or lists; or the model that
            gives them.
        target: Their labels `[N]`; or, for a model, a `DataLoader` or other iterable of batches: `(x, y)`, or a mapping with "labels".
        logits_of: For a model, takes the logits from what it returns, where they are neither that itself nor its `.logits` or `["logits"]`.
        calibrate_on: Held-out scores and labels to fit a calibrator on, or a calibrator that is fitted already.
        objective: What the calibrator minimises, by default the first of its `objectives`.
        num_bins: Bins of ECE and other binned metrics, and of histogram binning, 1 to 1,000.
        from_logits: False where all scores are probabilities.
        calibrate_with: Name of a calibrator, from `rankmixup.list_calibrators()`.
        ood: Scores of out-of-distribution samples by name, to be separated from the test samples.
        score: The score that separates them.
        positive: The class, as an index, whose probability verdicts, groups and figures are about first: observed over expected,
            calibration intercept and slope, ECE and AUROC; by default class 1 of two.
        replicates: Resamples behind every interval, noise floor and p-value.
        seed: Seed of the resampling.
        source: Where the scores are from, as the report shows it.
        groups: The group of each sample `[N]`, texts or whole numbers, or several such groupings by name. Each group gets every metric with
            its own uncertainty, and it is tested whether groups differ.
        accept_at: An accuracy, such as 0.95 or "accuracy=95%": the confidence is found above which predictions have it. It is chosen on
            `calibrate_on`, after calibration, and checked on the test scores. Or a `Threshold` that was chosen before.

    Returns:
        The metrics as `Estimate`s; print it, or `save("report.html")`.

    >>> report = evaluate([[2.0, 0.0], [0.0, 1.0]], [0, 0])
    >>> report.value("accuracy")
    0.5
    """
    is_pair = isinstance(calibrate_on, tuple | list) and len(calibrate_on) == 2
    valid = calibrate_on is None or is_pair or isinstance(calibrate_on, Calibrator)
    require(valid, f"calibrate_on must be (logits, labels) or a fitted calibrator, got {shown(calibrate_on)}")
    require(ood is None or isinstance(ood, Mapping), f"ood must name scores, as in {{'svhn': logits}}, got {shown(ood)}")
    if isinstance(logits, nn.Module):
        logits, target = predict_batches(logits, target, logits_of)
    labels = [target, *(calibrate_on[1:] if isinstance(calibrate_on, tuple | list) else ())]
    require(all(each is not None for each in labels), "target and the labels of calibrate_on must be class indices [N], got None")
    test = as_scores(logits, target, from_logits)  # type: ignore[arg-type]
    held_out = as_scores(*calibrate_on, from_logits) if isinstance(calibrate_on, tuple | list) else calibrate_on
    unknown = {name: as_scores(each, None, from_logits) for name, each in (ood or {}).items()}
    options: dict[str, Any] = {"source": source, "calibrate_with": calibrate_with, "objective": objective, "ood": unknown, "score": score}
    options |= {"groups": groups, "accept_at": accept_at}
    options["positive"] = positive
    return evaluate_scores(test, held_out, **options, num_bins=num_bins, replicates=replicates, seed=seed)


@torch.no_grad()
def predict_batches(
    model: nn.Module, batches: Iterable[Any], logits_of: LogitsOf | None = None
) -> tuple[Float[Tensor, "N ..."], Shaped[Tensor, "N ..."]]:
    """Logits of each sample, in evaluation mode and on the model's own device, and the labels; both on the CPU.

    Args:
        model: A module that returns logits `[B, K]`, or for two classes `[B]` or `[B, 1]`; each of its parts keeps its mode.
        batches: A `DataLoader` or other iterable of batches `(x, y)`, or of mappings with `"labels"`.
        logits_of: Takes the logits out of what the model returns, where that is neither a tensor nor has `logits`.

    Returns:
        What `evaluate`, calibrators and the `tune` of an objective take.
    """
    if not isinstance(model, nn.Module):
        raise InvalidInput(f"model must be a torch.nn.Module, got {shown(model)}")
    rule = "target must be a DataLoader or another iterable of batches, (x, y) or a mapping with 'labels', where a model is evaluated"
    require(isinstance(batches, Iterable) and not isinstance(batches, Tensor), f"{rule}, got {shown(batches)}")
    device = next((each.device for each in (*model.parameters(), *model.buffers())), torch.device("cpu"))
    outputs, labels = [], []
    with evaluating(model):
        for batch in batches:
            pair = isinstance(batch, tuple | list) and len(batch) == 2
            x, y = batch if pair else (batch, batch.get("labels") if isinstance(batch, Mapping) else None)
            if not isinstance(y, Tensor):
                raise InvalidInput(f"{rule}, got a batch {shown(batch)}")
            x = map_leaves(lambda _, leaf: leaf.to(device), x)
            logits = call_model(model, x, logits_of).float().cpu()
            logits = logits.flatten() if logits.ndim == 0 else logits  # a batch of one sample, squeezed
            fits = logits.ndim in (1, 2) and len(logits) == len(y)
            require(fits, f"a model must return logits [B, K], [B] or [B, 1] for {len(y)} samples, got shape {list(logits.shape)}")
            outputs.append(logits)
            labels.append(y.cpu())
    require(len(outputs) > 0, f"{rule}, got no batch")
    return torch.cat(outputs), torch.cat(labels)


def as_scores(scores: Array, target: Array | None, from_logits: bool) -> Scores:
    """Checked scores from arrays of any kind; without labels, as out-of-distribution samples are, all labels are 0 and never looked at."""
    scores = as_tensor("scores", scores)
    labels = torch.zeros(scores.shape[:1], dtype=torch.long, device=scores.device) if target is None else as_tensor("labels", target)
    return Scores(scores, labels, from_logits)


def evaluate_scores(
    test: Scores,
    held_out: Scores | Calibrator | None = None,
    *,
    source: str = "scores",
    fitted_on: str = "calibrate_on",
    calibrate_with: str = "temperature",
    objective: str | None = None,
    ood: Mapping[str, Scores] | None = None,
    score: OODKind = "entropy",
    positive: int | str | None = None,
    num_bins: int = 15,
    replicates: int = 1000,
    seed: int = 0,
    protocol: Protocol = "paper",
    shared_classes: Mapping[str, Sequence[str]] | None = None,
    groups: Values | Mapping[str, Values] | None = None,
    accept_at: AcceptAt = None,
) -> Evaluation:
    """As `evaluate`, for `Scores`; a calibrator that is fitted already may take the place of `held_out`.

    `shared_classes` are those classes of each set in `ood` that the model was trained on. `positive` may be the name of a class.
    """
    check_replicates(replicates)
    check_num_bins(num_bins)
    seed = require_whole("seed", seed)
    groupings = all_labels(groups, len(test))
    classes, index = test.scores.shape[1], positive_index(test, positive)
    threshold, accuracy = (
        (accept_at, None) if isinstance(accept_at, Threshold) else (None, None if accept_at is None else asked_accuracy(accept_at))
    )
    if accuracy is not None:
        rule = "accept_at must go with held-out scores (calibrate_on, --calibrate-on or a run)"
        require(isinstance(held_out, Scores), f"{rule}, got {'a fitted calibrator' if held_out else 'none'}")
    calibrated, calibration = None, None
    estimate = partial(estimate_metrics, num_bins=num_bins, replicates=replicates, seed=seed)
    describe = None if index is None else partial(describe_positive, index=index, num_bins=num_bins, replicates=replicates, seed=seed)
    if held_out is not None:
        if isinstance(held_out, Calibrator):
            calibrator, fitted_on = held_out, held_out.report_.split or fitted_on
        else:
            others = held_out.scores.shape[1]
            require(others == classes, f"held-out and test scores must have the same number of classes, got {others} and {classes}")
            calibrator = fit_calibrator(held_out, calibrate_with, objective=objective, num_bins=num_bins, fitted_on=fitted_on)
            if accuracy is not None:
                threshold = choose_threshold(held_out, accuracy, calibrator=calibrator, chosen_on=fitted_on)
        calibrated = Scores(calibrator.transform(test.logits.double()), test.labels, class_names=test.class_names)
        report, same_data = calibrator.report_, calibrator.fitted_on_same(test.logits)
        head = (report.method, report.objective, report.parameters, report.converged, fitted_on, report.samples, same_data, report.verdict)
        described = describe(calibrated) if describe else None
        calibration = Calibration(*head, estimate(calibrated), described)
    acceptance = None if threshold is None else check_threshold(threshold, calibrated or test)
    detection = detect_all(test, ood or {}, score, replicates=replicates, seed=seed, shared_classes=shared_classes)
    shown = (estimate(test), calibration, detection, ())
    grouped = evaluate_groups(test, calibrated, groupings, estimate, describe, num_bins=num_bins, replicates=replicates, seed=seed)
    described, sets = describe(test) if describe else None, dict(ood or {})
    return Evaluation(source, len(test), classes, *shown, test, calibrated, sets, num_bins, protocol, grouped, described, acceptance)


def estimate_metrics(scores: Scores, *, num_bins: int = 15, replicates: int = 1000, seed: int = 0) -> Metrics:
    """Every metric with its uncertainty; None where it is not defined on these scores."""
    more: dict[str, Any] = {"num_bins": num_bins, "replicates": replicates, "rng": random.stream(seed, "uncertainty")}
    found = metric_uncertainty(scores.scores, scores.labels, from_logits=scores.from_logits, part=scores.part, **more)
    return {key: found.get(key) for key in METRICS}


def fit_calibrator(
    held_out: Scores, name: str = "temperature", *, objective: str | None = None, num_bins: int = 15, fitted_on: str = "", warn: bool = True
) -> Calibrator:
    """The calibrator `name`, fitted on held-out scores; `fitted_on` names them in its report."""
    return CALIBRATORS[name](objective, num_bins).fit(held_out.logits, held_out.labels, split=fitted_on, warn=warn)


def fit_temperatures(held_out: Scores) -> dict[str, TemperatureScaling]:
    """Temperature scaling fitted with each objective; a fit that did not converge says so in its report, without a warning."""
    logits, target = held_out.logits, held_out.labels
    return {objective: TemperatureScaling(objective).fit(logits, target, warn=False) for objective in TemperatureScaling.objectives}
