"""Conditions under which an evaluation fails, as `ece>0.03`: for pipelines that must stop at a bad model."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rankmixup.errors import InvalidInput, require, unknown_name
from rankmixup.reports.evaluation import KEYS, Evaluation

__all__ = ["Condition", "with_failures"]

_END = r"(?:\s*:\s*(low|high))?"
_PATTERN = re.compile(rf"\s*([\w-]+){_END}\s*([<>])\s*([^:\s]+){_END}\s*")
_RULE = "a condition must be KEY, < or >, a fraction and optionally :low or :high, as in 'ece>0.03:low'"


@dataclass(frozen=True)
class Condition:
    """`KEY>FRACTION` or `KEY<FRACTION`; `:low` or `:high`, behind the fraction or the key, compares that end of the interval.

    >>> Condition.parse("ece>0.03:low")
    Condition(text='ece>0.03:low', key='ece', sign='>', bound=0.03, end='low')
    """

    text: str
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
        key, first, sign, number, last = match.groups()
        try:
            bound = float(number)
        except ValueError:
            bound = math.nan
        require(math.isfinite(bound) and not (first and last), f"{_RULE}, got {text!r}")
        if key not in KEYS:
            raise unknown_name("metric", key, KEYS)
        return cls(text, key, sign, bound, first or last or "value")  # type: ignore[arg-type]

    def holds(self, evaluation: Evaluation) -> bool:
        """Whether the evaluation meets it; refused where there is no such number, which must not pass for a good one."""
        value = (evaluation.metrics[self.key] or {}).get(self.end)
        if value is None or math.isnan(value):
            raise InvalidInput(f"condition {self.text!r} must be about a number that these scores have; {self.key} has no {self.end} here")
        return value > self.bound if self.sign == ">" else value < self.bound


def with_failures(evaluation: Evaluation, conditions: Sequence[Condition]) -> Evaluation:
    """The evaluation with the conditions that it meets as `failed`."""
    return replace(evaluation, failed=tuple(condition.text for condition in conditions if condition.holds(evaluation)))
