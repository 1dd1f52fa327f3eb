"""Metrics of stored runs, from their logits alone: before and after each temperature, with the interval over test samples."""

from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import Scores, fit_temperatures
from rankmixup.evaluation.diagrams import lambda_curve
from rankmixup.evaluation.registry import METRICS
from rankmixup.evaluation.replicates import bootstrap, read_samples
from rankmixup.evaluation.statistics import gap_floor, gap_interval
from rankmixup.experiments.grid import Cell, unknown_set_name
from rankmixup.metrics import (
    accuracy,
    adaptive_calibration_error,
    expected_calibration_error,
    ood_scores,
    overconfidence_error,
    underconfidence_error,
)
from rankmixup.ops import confidence
from rankmixup.runs import Run, StoredRun

__all__ = ["OBJECTIVES", "Measured", "Measurements", "Stage"]

T = TypeVar("T")
Stage = Literal["plain", "ece-grid", "nll"]
"""As trained, or after a temperature fitted on validation with this objective; ece-grid is what the paper's parentheses hold."""
OBJECTIVES: tuple[Stage, ...] = ("ece-grid", "nll")
_METRICS: dict[str, Callable[..., Tensor]] = {
    "accuracy": accuracy,
    "ece": expected_calibration_error,
    "aece": adaptive_calibration_error,
    "oe": overconfidence_error,
    "ue": underconfidence_error,
}


class Measured(NamedTuple):
    """A metric of one run."""

    value: float
    low: float | None = None
    """Ends of the 95 % interval over test samples."""
    high: float | None = None
    floor: float | None = None
    """What a calibrated model with the same confidences shows on average."""


class Measurements:
    """Looks up and keeps what was measured, so that a run that stands in several tables is read once.

    Of calibration errors the interval is by test inversion, of accuracy Wilson's, of AUROC DeLong's. Beside the usual metrics there are
    two of the paper's hypothesis: `lambda_correlation`, Spearman's between lambda and the confidence of mixed test samples, and
    `raw_minus_mixed`, by how much raw ones are more confident. What cannot be read counts as not there, and is noted in `damaged`.
    """

    def __init__(self, runs: Path, replicates: int = 400):
        self.damaged: dict[str, str] = {}
        """By id, what is wrong with a run."""
        self._replicates = replicates
        self._open: Callable[[Run], _Opened | None] = lru_cache(maxsize=16)(lambda run: _Opened.finished(runs, run))
        self._kept: dict[tuple[str, ...], float | None] = {}
        self._measured: dict[tuple[str, ...], Measured] = {}

    def values(self, cell: Cell, metric: str, stage: Stage = "plain") -> dict[int, float]:
        """By seed, of the runs that are finished."""
        found = {run.seed: self._value(run, metric, stage, cell.unknown) for run in cell.runs}
        return {seed: value for seed, value in found.items() if value is not None}

    def measured(self, cell: Cell, metric: str, stage: Stage = "plain") -> list[Measured]:
        """With intervals, of the runs that are finished."""
        found = [self._with_interval(run, metric, stage, cell.unknown) for run in cell.runs]
        return [each for each in found if each is not None]

    def _value(self, run: Run, metric: str, stage: Stage, unknown: str) -> float | None:
        key = (run.id, metric, stage, unknown)
        if key not in self._kept:
            self._kept[key] = self._asked(run, lambda opened: opened.value(metric, stage, unknown))
        return self._kept[key]

    def _with_interval(self, run: Run, metric: str, stage: Stage, unknown: str) -> Measured | None:
        key = (run.id, metric, stage, unknown)
        if key not in self._measured:
            value = self._value(run, metric, stage, unknown)
            if value is None:
                return None
            found = self._asked(run, lambda opened: opened.measured(metric, stage, unknown, value, self._replicates))
            if found is None:
                return None
            self._measured[key] = found
        return self._measured[key]

    def _asked(self, run: Run, question: Callable[["_Opened"], T | None]) -> T | None:
        try:
            opened = self._open(run)
            return None if opened is None else question(opened)
        except InvalidInput as error:
            self.damaged[run.id] = str(error)
            return None

    def curve(self, cell: Cell) -> list[float | None]:
        """Mean confidence in ten bins of lambda from 0.5 to 1, then of raw samples; nothing without finished runs."""
        found = [curve for run in cell.runs if (curve := self._asked(run, lambda opened: opened.mixed_and_raw)) is not None]
        return lambda_curve(found) if found else []

    def cost(self, run: Run) -> tuple[float, str] | None:
        """Seconds that a finished run took to train, and the machine that it was trained on."""
        return self._asked(run, lambda opened: (opened.seconds, opened.machine))


class _Opened:
    """The stored scores of a finished run."""

    def __init__(self, stored: StoredRun):
        self._stored = stored

    @classmethod
    def finished(cls, runs: Path, run: Run) -> "_Opened | None":
        stored = StoredRun.locate(runs, run)
        return cls(stored) if stored.finished else None

    @property
    def seconds(self) -> float:
        return self._stored.result().seconds

    @property
    def machine(self) -> str:
        environment = self._stored.environment()
        if environment is None:
            return "unknown"
        version = environment.packages.get("torch")
        return ", ".join([*environment.devices[:1], *([f"torch {version}"] if version else [])])

    @cached_property
    def test(self) -> Scores:
        return self._stored.scores("test")

    @cached_property
    def temperature(self) -> dict[Stage, float]:
        fitted = fit_temperatures(self._stored.scores("val"))
        return {"plain": 1.0, "ece-grid": fitted["ece-grid"].temperature_, "nll": fitted["nll"].temperature_}

    def logits(self, stage: Stage) -> Float[Tensor, "N K"]:
        return self.test.logits / self.temperature[stage]

    def strangeness(self, stage: Stage, unknown: str) -> tuple[Float[Tensor, " N"], Float[Tensor, " M"]] | None:
        """Entropies of test samples and of unknown ones."""
        split = f"ood-{unknown_set_name(unknown)}"
        if not unknown or not self._stored.predictions_path(split).exists():
            return None
        outside = self._stored.scores(split)
        return ood_scores(self.logits(stage)), ood_scores(outside.logits / self.temperature[stage])

    def value(self, metric: str, stage: Stage, unknown: str) -> float | None:
        if metric == "auroc":
            both = self.strangeness(stage, unknown)
            return None if both is None else _delong(*both).value
        if metric in ("lambda_correlation", "raw_minus_mixed"):
            return self._hypothesis(metric)
        return _METRICS[metric](self.logits(stage), self.test.labels, from_logits=True).item()

    @property
    def mixed_and_raw(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """Logits and lambda of mixed test samples, and logits of raw ones."""
        mixed = self._stored.mixes()
        return None if mixed is None else (mixed.logits, mixed.lam, self.test.logits)

    def _hypothesis(self, metric: str) -> float | None:
        from scipy.stats import spearmanr

        if self.mixed_and_raw is None:
            return None
        mixed, lam, raw = self.mixed_and_raw
        sure = confidence(mixed.double())
        if metric == "raw_minus_mixed":
            return (confidence(raw).mean() - sure.mean()).item()
        # Confidences that are all the same follow nothing.
        return 0.0 if sure.min() == sure.max() else float(spearmanr(sure.numpy(), lam.double().numpy()).statistic)

    def measured(self, metric: str, stage: Stage, unknown: str, value: float, replicates: int) -> Measured:
        if metric == "accuracy":
            from scipy.stats import binomtest

            ends = binomtest(round(value * len(self.test)), len(self.test)).proportion_ci(method="wilson")
            return Measured(value, float(ends.low), float(ends.high))
        if metric == "auroc":
            both = self.strangeness(stage, unknown)
            assert both is not None  # it has a value
            return _delong(*both)
        if metric not in METRICS or METRICS[metric].bins is None:
            return Measured(value)
        rng = random.stream(self._stored.run.seed, "scorecard", metric, stage)
        samples = read_samples(self.logits(stage), self.test.labels, num_bins=15, from_logits=True)
        floor = gap_floor(samples, metric, replicates, rng)
        if samples.unanimous:
            return Measured(value, floor=floor.mean)
        (draws,) = bootstrap([samples], replicates, rng, ranked=False)
        interval = gap_interval(samples, metric, draws, floor)
        return Measured(value, interval.low, interval.high, floor.mean)


def _delong(inside: Float[Tensor, " N"], outside: Float[Tensor, " M"]) -> Measured:
    """AUROC with DeLong's interval: its variance is that of each sample's share of the other set that it is told from."""
    both = torch.cat([inside, outside])
    below_inside, below_outside = (_share_below(both, each) for each in (inside, outside))
    told = below_inside[len(inside) :]
    kept = 1 - below_outside[: len(inside)]
    value = told.mean().item()
    error = sum(share.var(correction=0).item() / len(share) for share in (told, kept)) ** 0.5
    return Measured(value, max(value - 1.96 * error, 0.0), min(value + 1.96 * error, 1.0))


def _share_below(values: Tensor, among: Tensor) -> Tensor:
    """For each value the share of `among` that is smaller, equal ones by half."""
    ordered = among.sort().values
    below, upto = (torch.searchsorted(ordered, values, right=right) for right in (False, True))
    return (below + upto).double() / (2 * len(ordered))
