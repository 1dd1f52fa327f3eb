"""Conditions under which an evaluation or a comparison fails, as `ece>3%`: for pipelines that must stop at a bad model."""

import math
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from rankmixup.errors import InvalidInput, listed, require, shown, unknown_name
from rankmixup.evaluation.groups import MIN_SAMPLES
from rankmixup.evaluation.names import find_model
from rankmixup.evaluation.registry import DETECTION_METRICS, METRICS, POSITIVE_METRICS, metric_named
from rankmixup.evaluation.results import Difference, Estimate, Evaluation, Metrics, all_metrics_of

Sign = Literal["<", ">"]
End = Literal["value", "low", "high"]

_END = r"(?:\s*:\s*(low|high))?"
# A name in quotes may hold any letter; the group is atomic, so that no text takes long to refuse.
_LEFT = r"(?:(?>'[^']*'|\"[^\"]*\"|[^<>]))*?[^<>:\s]"
_PATTERN = re.compile(rf"((?=\S){_LEFT}){_END}\s*([<>])\s*([^:\s<>%]+)(%?){_END}")
_TERM = r"(?:'([^']+)'|\"([^\"]+)\"|([^\s'\"]+))\.([A-Za-z][\w-]*)"
_TERMS = re.compile(rf"{_TERM}(?:\s+[-\u2212]\s+{_TERM})?")
_GROUPS = ("groups.", "calibrated.groups.")
_OF_POSITIVE = re.compile(r"((?:calibrated\.)?(?:groups\..+\.)?)positive")
_NUMBER_RULE = "< or >, a number and optionally :low or :high"
_RULE = f"a condition must be METRIC, {_NUMBER_RULE}, as in 'ece>3%:low' or 'calibrated.ece>0.03'"
_COMPARISON_RULE = (
    f"a condition must be MODEL.METRIC or MODEL.METRIC - MODEL.METRIC, {_NUMBER_RULE}, as in 'b.ece - a.ece > 1%:low' or 'b.ece>0.03', "
    "with spaces around the minus and quotes around a name that holds spaces"
)


class _Parts(NamedTuple):
    """A condition taken apart; what stands left of its sign is not understood yet."""

    left: str
    sign: Sign
    bound: float
    percent: bool
    end: End


def _split(text: str, rule: str) -> _Parts:
    match = _PATTERN.fullmatch(text.strip())
    if match is None:
        raise InvalidInput(f"{rule}, got {text!r}")
    left, first, sign, number, percent, last = match.groups()
    try:
        bound = float(f"{number}e-2" if percent else number)
    except ValueError:
        bound = math.nan
    require(math.isfinite(bound) and not (first and last), f"{rule}, got {text!r}")
    return _Parts(left, sign, bound, bool(percent), first or last or "value")  # type: ignore[arg-type]


def _check_bound(text: str, key: str, parts: _Parts, *, signed: bool = False) -> None:
    """Refuse numbers that the metric, or a difference of it, cannot pass: the condition could never hold."""
    metric, bound = metric_named(key), parts.bound
    require(not parts.percent or metric.unit == "%", f"condition {text!r} must have no %, {key} is not in percent")
    least = -metric.most if signed else metric.least
    reachable = least <= bound < metric.most if parts.sign == ">" else least < bound <= metric.most
    hint = f"; {bound:g} percent is {bound:g}%" if not parts.percent and metric.unit == "%" and abs(bound) > 1 else ""
    what = f"a difference of {key}" if signed else key
    require(
        reachable, f"condition {text!r} must compare {what} with a number that it can pass, it lies in {least:g}..{metric.most:g}{hint}"
    )


class _Bounded:
    """What both kinds of conditions share."""

    text: str
    key: str
    sign: Sign
    bound: float
    end: End

    def _beyond(self, found: Mapping[str, Estimate | Difference | None]) -> list[str]:
        """The names of those whose number is beyond the bound, worst first.

        Refused where there is no such number, which must not pass for a good one; what has none beside others that have is warned of.
        """
        ends = {name: getattr(each, self.end, None) for name, each in found.items()}
        values = {name: value for name, value in ends.items() if value is not None and not math.isnan(value)}
        if not values:
            raise InvalidInput(f"condition {self.text!r} must be about a number that these scores have; {self.key} has no {self.end} here")
        if left_out := [name for name in found if name not in values]:
            why = f"of fewer than {MIN_SAMPLES} samples or without a {self.end} of {self.key}"
            warnings.warn(f"condition {self.text!r} passes over groups {why}: {listed(left_out, 20)}", stacklevel=4)
        worst_first = sorted(values, key=values.__getitem__, reverse=self.sign == ">")
        return [name for name in worst_first if (values[name] > self.bound if self.sign == ">" else values[name] < self.bound)]


@dataclass(frozen=True)
class Condition(_Bounded):
    """`METRIC>NUMBER` or `METRIC<NUMBER`; `:low` or `:high`, behind the number or the metric, compares that end of the interval.

    METRIC is a key of the JSON, `calibrated.KEY` for its value after calibration, `ood.NAME.KEY` for an out-of-distribution set, or
    `groups.NAME.KEY` for any group of a grouping (`calibrated.groups.NAME.KEY` after calibration) that is large enough for a verdict; other
    groups are warned of. KEY is `positive.ece`, `positive.slope` and so on for the probability of the positive class. The number is a
    fraction or, for metrics that tables show in percent, a percentage with its sign. Numbers that the metric cannot pass are refused: the
    condition could never hold.

    >>> Condition.parse("calibrated.ece>3%:low")
    Condition(text='calibrated.ece>3%:low', of='calibrated', key='ece', sign='>', bound=0.03, end='low')
    """

    text: str
    of: str
    """`calibrated`, `ood.NAME`, `groups.NAME`, `calibrated.groups.NAME`, or nothing for the scores themselves."""
    key: str
    sign: Sign
    bound: float
    end: End = "value"

    @classmethod
    def parse(cls, text: str) -> "Condition":
        """From its text."""
        parts = _split(text, _RULE)
        of, _, key = parts.left.rpartition(".")
        if match := _OF_POSITIVE.fullmatch(of):
            of, key = match[1].rstrip("."), f"positive.{key}"
        valid = tuple(DETECTION_METRICS) if of.startswith("ood.") else (*METRICS, *POSITIVE_METRICS)
        named = of.startswith(("ood.", *_GROUPS))
        if key not in valid or not (of in ("", "calibrated") or named):
            names = [f"{of}.{each}" for each in valid] if named else [*valid, *(f"calibrated.{each}" for each in valid)]
            raise unknown_name("metric", parts.left, names)
        _check_bound(text, key, parts)
        return cls(text, of, key, parts.sign, parts.bound, parts.end)

    def holds(self, evaluation: Evaluation) -> bool:
        """Whether the evaluation meets it."""
        return self.failure(evaluation) is not None

    def failure(self, evaluation: Evaluation) -> str | None:
        """The condition, and the groups that meet it if it is about groups; None if it does not hold."""
        positive = not self.key.startswith("positive.") or evaluation.positive is not None
        require(positive, f"condition {self.text!r} must go with two classes or a positive class (--positive), got none")
        beyond = self._beyond({name: metrics.get(self.key) for name, metrics in self._all_metrics(evaluation).items()})
        groups = f" ({listed(beyond, 20)})" if self.of.startswith(_GROUPS) else ""
        return f"{self.text}{groups}" if beyond else None

    def _all_metrics(self, evaluation: Evaluation) -> Mapping[str, Metrics]:
        """The metrics, of which any may meet the condition, by the name of their group; none for one that is too small."""
        if not self.of.startswith(_GROUPS):
            return {"": self._metrics(evaluation)}
        name = self.of.partition("groups.")[2]
        require(len(evaluation.groups) > 0, f"condition {self.text!r} must go with groups of samples (--group), got none")
        if name not in evaluation.groups:
            raise unknown_name("grouping", name, evaluation.groups)
        grouping = evaluation.groups[name]
        stage = grouping.after if self.of.startswith("calibrated.") else grouping.before
        if stage is None:
            raise InvalidInput(f"condition {self.text!r} must go with scores to calibrate on (--calibrate-on), got none")
        return {name: {} if group.too_small else all_metrics_of(group) for name, group in stage.groups.items()}

    def _metrics(self, evaluation: Evaluation) -> Metrics:
        if not self.of:
            return all_metrics_of(evaluation)
        if self.of == "calibrated":
            if evaluation.calibration is None:
                raise InvalidInput(f"condition {self.text!r} must go with scores to calibrate on (--calibrate-on), got none")
            return all_metrics_of(evaluation.calibration)
        name = self.of.removeprefix("ood.")
        require(len(evaluation.ood) > 0, f"condition {self.text!r} must go with out-of-distribution samples (--ood), got none")
        if name not in evaluation.ood:
            raise unknown_name("OOD set", name, evaluation.ood)
        return dict(evaluation.ood[name].metrics)


@dataclass(frozen=True)
class ComparisonCondition(_Bounded):
    """`MODEL.METRIC>NUMBER`, or `MODEL.METRIC - MODEL.METRIC > NUMBER` for the paired difference; the rest as in `Condition`.

    MODEL is the name of a model or the end of its path (see `find_model`), in quotes where it holds a space, a quote, `<` or `>`.

    >>> ComparisonCondition.parse("b.ece - a.ece > 1%:low", ["out/a.npz", "out/b.npz"], ["ece", "accuracy"])
    ComparisonCondition(text='b.ece - a.ece > 1%:low', model='out/b.npz', other='out/a.npz', key='ece', sign='>', bound=0.01, end='low')
    """

    text: str
    model: str
    other: str | None
    """The model that is subtracted, for a difference."""
    key: str
    sign: Sign
    bound: float
    end: End = "value"

    @classmethod
    def parse(cls, text: str, models: Iterable[str], keys: Sequence[str]) -> "ComparisonCondition":
        """From its text; `models` and `keys` are the models and metrics that are compared."""
        parts, models = _split(text, _COMPARISON_RULE), list(models)
        match = _TERMS.fullmatch(parts.left)
        if match is None:
            raise InvalidInput(f"{_COMPARISON_RULE}, got {text!r}")
        *quoted, key, other_single, other_double, other_bare, other_key = match.groups()
        for each in filter(None, (key, other_key)):
            if each not in METRICS:
                raise unknown_name("metric", each, METRICS)
            require(each in keys, f"condition {text!r} must be about a metric that is compared ({', '.join(keys)}), got {each}")
        require(other_key in (None, key), f"condition {text!r} must subtract the same metric, got {key} and {other_key}")
        model = find_model(next(filter(None, quoted)), models)
        subtracted = other_single or other_double or other_bare
        other = None if subtracted is None else find_model(subtracted, models)
        require(model != other, f"condition {text!r} must subtract another model, got {model} twice")
        _check_bound(text, key, parts, signed=other is not None)
        return cls(text, model, other, key, parts.sign, parts.bound, parts.end)

    def holds(self, found: Estimate | Difference) -> bool:
        """Whether the number that it is about meets it."""
        return bool(self._beyond({"": found}))


def listed_conditions(conditions: str | Sequence[str]) -> tuple[str, ...]:
    """Conditions as a list: a single one may be given by itself."""
    found = (conditions,) if isinstance(conditions, str) else conditions
    texts = isinstance(found, Sequence) and all(isinstance(each, str) for each in found)
    require(texts, f"fail_if must be a condition or a list of conditions, got {shown(conditions)}")
    return tuple(found)


def with_failures(evaluation: Evaluation, conditions: Sequence[Condition]) -> Evaluation:
    """The evaluation with the conditions that it meets, and the groups that do, as `failed`."""
    return replace(evaluation, failed=tuple(failure for condition in conditions if (failure := condition.failure(evaluation))))
