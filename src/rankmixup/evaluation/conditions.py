"""Conditions under which an evaluation fails, as `ece>3%`: for pipelines that must stop at a bad model."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rankmixup.errors import InvalidInput, require, unknown_name
from rankmixup.evaluation.registry import DETECTION_METRICS, METRICS, metric_named
from rankmixup.evaluation.results import Estimate, Evaluation

_END = r"(?:\s*:\s*(low|high))?"
_PATTERN = re.compile(rf"\s*([^<>]*?[^<>:\s]){_END}\s*([<>])\s*([^:\s<>%]+)(%?){_END}\s*")
_RULE = "a condition must be METRIC, < or >, a number and optionally :low or :high, as in 'ece>3%:low' or 'calibrated.ece>0.03'"


@dataclass(frozen=True)
class Condition:
    """`METRIC>NUMBER` or `METRIC<NUMBER`; `:low` or `:high`, behind the number or the metric, compares that end of the interval.

    METRIC is a key of the JSON, `calibrated.KEY` for its value after calibration, or `ood.NAME.KEY` for an out-of-distribution set. The
    number is a fraction or, for metrics that tables show in percent, a percentage with its sign. Numbers that the metric cannot pass are
    refused: the condition could never hold.

    >>> Condition.parse("calibrated.ece>3%:low")
    Condition(text='calibrated.ece>3%:low', of='calibrated', key='ece', sign='>', bound=0.03, end='low')
    """

    text: str
    of: str
    """`calibrated`, `ood.NAME`, or nothing for the scores themselves."""
    key: str
    sign: Literal["<", ">"]
    bound: float
    end: Literal["value", "low", "high"] = "value"

    @classmethod
    def parse(cls, text: str) -> "Condition":
        """From its text."""
        match = _PATTERN.fullmatch(text)
        if match is None:
            raise InvalidInput(f"{_RULE}, got {text!r}")
        metric, first, sign, number, percent, last = match.groups()
        try:
            bound = float(f"{number}e-2" if percent else number)
        except ValueError:
            bound = math.nan
        require(math.isfinite(bound) and not (first and last), f"{_RULE}, got {text!r}")
        of, _, key = metric.rpartition(".")
        valid = DETECTION_METRICS if of.startswith("ood.") else METRICS
        if key not in valid or not (of in ("", "calibrated") or of.startswith("ood.")):
            names = [f"{of}.{each}" for each in valid] if of.startswith("ood.") else [*valid, *(f"calibrated.{each}" for each in valid)]
            raise unknown_name("metric", metric, names)
        shown = metric_named(key)
        require(not percent or shown.unit == "%", f"condition {text!r} must have no %, {key} is not in percent")
        reachable = 0 <= bound < shown.most if sign == ">" else 0 < bound <= shown.most
        hint = f"; {bound:g} percent is {bound:g}%" if not percent and shown.unit == "%" and bound > 1 else ""
        require(reachable, f"condition {text!r} must compare {key} with a number that it can pass, it lies in 0..{shown.most:g}{hint}")
        return cls(text, of, key, sign, bound, first or last or "value")  # type: ignore[arg-type]

    def holds(self, evaluation: Evaluation) -> bool:
        """Whether the evaluation meets it; refused where there is no such number, which must not pass for a good one."""
        value = getattr(self._metrics(evaluation).get(self.key), self.end, None)
        if value is None or math.isnan(value):
            raise InvalidInput(f"condition {self.text!r} must be about a number that these scores have; {self.key} has no {self.end} here")
        return value > self.bound if self.sign == ">" else value < self.bound

    def _metrics(self, evaluation: Evaluation) -> Mapping[str, Estimate | None]:
        if not self.of:
            return evaluation.metrics
        if self.of == "calibrated":
            if evaluation.calibration is None:
                raise InvalidInput(f"condition {self.text!r} must go with scores to calibrate on (--calibrate-on), got none")
            return evaluation.calibration.metrics
        name = self.of.removeprefix("ood.")
        require(len(evaluation.ood) > 0, f"condition {self.text!r} must go with out-of-distribution samples (--ood), got none")
        if name not in evaluation.ood:
            raise unknown_name("OOD set", name, evaluation.ood)
        return evaluation.ood[name].metrics


def with_failures(evaluation: Evaluation, conditions: Sequence[Condition]) -> Evaluation:
    """The evaluation with the conditions that it meets as `failed`."""
    return replace(evaluation, failed=tuple(condition.text for condition in conditions if condition.holds(evaluation)))
