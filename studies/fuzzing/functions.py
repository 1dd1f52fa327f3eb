"""Public functions with arguments that are right, or of which one or two are not."""

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import rankmixup as rm
from rankmixup import evaluation, functional, posthoc
from rankmixup.errors import InvalidInput
from studies.fuzzing.case import Difference, Verdict
from studies.fuzzing.oracle import agree
from studies.fuzzing.values import Sample, draw_sample, hostile

__all__ = ["try_function"]

Arguments = dict[str, Any]

_BINNED = ("expected_calibration_error", "adaptive_calibration_error", "maximum_calibration_error", "classwise_calibration_error")
_BINNED += ("overconfidence_error", "underconfidence_error", "debiased_calibration_error")
_UNBINNED = ("accuracy", "negative_log_likelihood", "brier_score", "ks_calibration_error", "smooth_calibration_error")
_UNBINNED += ("aurc", "excess_aurc", "correctness_auroc")
_ORACLE = {"accuracy": "accuracy", "negative_log_likelihood": "nll", "brier_score": "brier", "expected_calibration_error": "ece"}
_LOSSES = ("label_smoothing_loss", "focal_loss", "flsd_loss", "entropy_penalty_loss", "mmce_loss", "mbls_loss", "cpc_loss")
_CALIBRATORS = ("temperature", "vector", "ensemble-temperature", "isotonic", "histogram")
_METHODS = (
    "ce",
    "label-smoothing",
    "focal",
    "mbls",
    "mixup",
    "regmixup",
    "rankmixup-mrl",
    "rankmixup-mndcg",
    "rankmixup-auto",
    "rankmixup-list",
)
_UNDEFINED = ("debiased calibration error must", "predictions must be right and wrong")
"""How the functions say that a metric has no value on these scores; right scores may get that answer."""


def try_function(rng: np.random.Generator, folder: Path) -> Verdict:
    """One call of one public function."""
    call, arguments, sample, key = _FAMILIES[int(rng.integers(len(_FAMILIES)))](rng)
    changed = []
    if rng.random() < 0.75:
        changed = rng.choice(list(arguments), size=min(len(arguments), 1 + int(rng.random() < 0.2)), replace=False).tolist()
    arguments = {name: hostile(rng, value) if name in changed else _as_given(rng, value) for name, value in arguments.items()}
    with _as_users_call():
        try:
            found = call(**arguments)
        except InvalidInput as error:
            if not changed and not str(error).startswith(_UNDEFINED):
                raise Difference(f"right arguments must not be refused, got: {error}") from error
            raise
    if not changed:
        _require_numbers(found)
    seen = _as_the_oracle_sees(arguments, sample)
    if key is None or seen is None:
        return "answered"
    values = found if isinstance(found, dict) else {key: float(found)}
    agree(values, seen, int(arguments.get("num_bins", 15)))
    return "agrees"


@contextlib.contextmanager
def _as_users_call() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _as_given(rng: np.random.Generator, value: Any) -> Any:
    """A right argument, as an array or as a tensor."""
    if isinstance(value, np.ndarray) and rng.random() < 0.5:
        return torch.from_numpy(value.astype(np.int64) if value.dtype.kind == "u" else value)
    return value


def _as_the_oracle_sees(arguments: Arguments, sample: Sample | None) -> Sample | None:
    """The scores and labels that were passed, if they are plain numbers; a mask that was not refused is a wrong answer."""
    if sample is None:
        return None
    passed = [value for name, value in arguments.items() if name in ("logits", "probs", "scores", "target")]
    if any(isinstance(value, np.ma.MaskedArray) and value.mask.any() for value in passed):
        raise Difference("a masked array must be refused, it was used without its mask")
    scores, labels = (_plain(value) for value in passed)
    if scores.ndim != 2 or labels.shape != scores.shape[:1]:
        raise Difference(f"scores of shape {scores.shape} and labels of shape {labels.shape} must be refused")
    if labels.astype(np.float64).tolist() != np.round(labels.astype(np.float64)).tolist():
        raise Difference("labels that are no whole numbers must be refused")
    return Sample(scores.astype(np.float64), labels.astype(np.int64), sample.from_logits)


def _plain(value: Any) -> np.ndarray:
    if isinstance(value, torch.Tensor):
        value = value.detach()
        value = (value.double() if value.is_floating_point() else value.long()).numpy()
    return np.asarray(value)


def _require_numbers(found: Any) -> None:
    values = found.values() if isinstance(found, dict) else [found]
    for value in values:
        number = float(value) if isinstance(value, (int, float, torch.Tensor)) and getattr(value, "numel", lambda: 1)() == 1 else 0.0
        if math.isnan(number):
            raise Difference("right arguments must not give NaN")


def _metric(rng: np.random.Generator) -> tuple[Callable[..., Any], Arguments, Sample | None, str | None]:
    sample = draw_sample(rng)
    name = str(rng.choice(_BINNED + _UNBINNED))
    more = {"num_bins": int(rng.choice([1, 2, 10, 15, 100]))} if name in _BINNED else {}

    def call(scores: Any, target: Any, **more: Any) -> Any:
        return getattr(functional, name)(scores, target, from_logits=sample.from_logits, **more)

    return call, {"scores": sample.scores, "target": sample.labels, **more}, sample, _ORACLE.get(name)


def _all_metrics(rng: np.random.Generator) -> tuple[Callable[..., Any], Arguments, Sample | None, str | None]:
    sample = draw_sample(rng)

    def call(scores: Any, target: Any, num_bins: Any) -> Any:
        return evaluation.all_metrics(scores, target, num_bins=num_bins, from_logits=sample.from_logits)

    arguments = {"scores": sample.scores, "target": sample.labels, "num_bins": int(rng.choice([1, 10, 15]))}
    return call, arguments, sample, "all"


def _evaluate(rng: np.random.Generator) -> tuple[Callable[..., Any], Arguments, Sample | None, str | None]:
    sample = draw_sample(rng)
    held_out = draw_sample(rng, classes=sample.scores.shape[1])

    def call(scores: Any, target: Any, num_bins: Any, replicates: Any) -> Any:
        calibrate_on = (held_out.scores, held_out.labels) if held_out.from_logits == sample.from_logits else None
        more = {"num_bins": num_bins, "replicates": replicates, "from_logits": sample.from_logits}
        report = rm.evaluate(scores, target, calibrate_on=calibrate_on, **more)
        return {key: entry and entry["value"] for key, entry in report.to_dict()["metrics"].items()}

    arguments = {"scores": sample.scores, "target": sample.labels, "num_bins": int(rng.choice([1, 15])), "replicates": 10}
    return call, arguments, sample, "all"


def _loss(rng: np.random.Generator) -> tuple[Callable[..., Any], Arguments, Sample | None, str | None]:
    name = str(rng.choice(_LOSSES))
    sample = draw_sample(rng, classes=int(rng.choice([3, 10])))
    logits = np.clip(sample.scores.astype(np.float32), -100, 100)

    def call(logits: Any, target: Any) -> Any:
        return getattr(functional, name)(logits, target)

    return call, {"logits": torch.from_numpy(logits), "target": torch.from_numpy(sample.labels.astype(np.int64))}, None, None


def _mixing(rng: np.random.Generator) -> tuple[Callable[..., Any], Arguments, Sample | None, str | None]:
    size = int(rng.integers(1, 6))
    x, lam = rng.normal(size=(size, 3, 8, 8)).astype(np.float32), rng.random(size).astype(np.float32)
    x, lam, partner, box = map(torch.from_numpy, (x, lam, rng.permutation(size), np.array([[0, 4, 2, 8]] * size)))
    if rng.random() < 0.5:
        return functional.mixup, {"x": x, "lam": lam, "partner": partner}, None, None
    return functional.cutmix, {"x": x, "box": box, "partner": partner}, None, None


def _ranking(rng: np.random.Generator) -> tuple[Callable[..., Any], Arguments, Sample | None, str | None]:
    size, mixes = int(rng.integers(2, 30)), int(rng.integers(2, 4))
    confidence, lam = rng.random(size), rng.random(size)
    mixed, mixed_lam = rng.random((mixes, size)), rng.random((mixes, size))
    choices: list[tuple[Callable[..., Any], Arguments]] = [
        (functional.kendall_tau, {"a": confidence, "b": lam}),
        (functional.violated_raw_pairs, {"raw": confidence, "mixed": mixed}),
        (functional.violated_mixed_pairs, {"mixed": mixed, "lam": mixed_lam}),
        (functional.ood_detection, {"id_scores": confidence, "ood_scores": lam}),
        (lambda confidence, lam: functional.confidence_by_lambda(confidence, lam)[0][:1], {"confidence": confidence, "lam": lam}),
    ]
    call, arguments = choices[int(rng.integers(len(choices)))]
    return call, arguments, None, None


def _calibrator(rng: np.random.Generator) -> tuple[Callable[..., Any], Arguments, Sample | None, str | None]:
    fitted = draw_sample(rng, classes=int(rng.choice([2, 5])))
    kind = posthoc.CALIBRATORS[str(rng.choice(_CALIBRATORS))]
    test = rng.normal(size=(5, fitted.scores.shape[1]))

    def call(logits: Any, target: Any, test_logits: Any) -> Any:
        return kind().fit(logits, target).transform(test_logits).sum()

    logits = fitted.scores if fitted.from_logits else rng.normal(size=fitted.scores.shape)
    return call, {"logits": logits, "target": fitted.labels, "test_logits": test}, None, None


class _Network(torch.nn.Module):
    """A network that says in one sentence what it cannot take: what others raise there is not this library's affair."""

    def __init__(self, classes: int):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        try:
            return self.layers(x)
        except (RuntimeError, TypeError, IndexError) as error:
            raise InvalidInput("the network does not take this input") from error


def _objective(rng: np.random.Generator) -> tuple[Callable[..., Any], Arguments, Sample | None, str | None]:
    size, classes = int(rng.integers(2, 6)), int(rng.choice([3, 10]))
    model = _Network(classes)

    def call(method: Any, num_classes: Any, x: Any, y: Any, seed: Any) -> Any:
        return rm.objective(method, num_classes=num_classes, seed=seed)(model, x, y).loss.detach()

    x = torch.from_numpy(rng.normal(size=(size, 3, 2, 2)).astype(np.float32))
    y = torch.from_numpy(rng.integers(classes, size=size))
    method = str(rng.choice(_METHODS))
    return call, {"method": method, "num_classes": classes, "x": x, "y": y, "seed": 0}, None, None


def _run(rng: np.random.Generator) -> tuple[Callable[..., Any], Arguments, Sample | None, str | None]:
    def call(**arguments: Any) -> Any:
        return float(len(rm.Run(**arguments).id))

    arguments = {"method": str(rng.choice(_METHODS)), "data": "digits", "model": "resnet8", "seed": 1, "selection": "nll"}
    return call, arguments, None, None


_FAMILIES = (_metric, _metric, _metric, _all_metrics, _evaluate, _loss, _mixing, _ranking, _calibrator, _objective, _run)
