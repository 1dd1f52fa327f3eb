"""Metrics of stored runs, from their logits alone: before and after each temperature, with the interval over test samples."""

from collections.abc import Callable
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Literal, TypeVar

from jaxtyping import Float
from torch import Tensor

from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import Estimate, Scores, fit_temperatures
from rankmixup.evaluation.detection import auroc_estimate
from rankmixup.evaluation.diagrams import lambda_curve
from rankmixup.evaluation.registry import METRICS
from rankmixup.evaluation.replicates import read_samples
from rankmixup.evaluation.results import wilson_interval
from rankmixup.evaluation.statistics import gap_estimate
from rankmixup.experiments.grid import Cell, unknown_set_name
from rankmixup.metrics import ood_scores
from rankmixup.ops import confidence
from rankmixup.runs import Run, StoredRun

T = TypeVar("T")
Stage = Literal["plain", "ece-grid", "nll"]
"""As trained, or after a temperature fitted on validation with this objective; ece-grid is what the paper's parentheses hold."""
OBJECTIVES: tuple[Literal["ece-grid", "nll"], ...] = ("ece-grid", "nll")


class Measurements:
    """Measures runs and keeps what it measured, so that a run of several tables is read once.

    Calibration errors have intervals by test inversion, accuracy has Wilson's, AUROC DeLong's. Two metrics are the paper's hypothesis:
    `lambda_correlation`, Spearman's correlation of lambda and the confidence of mixed test samples, and `raw_minus_mixed`, by how
    much raw samples are more confident. A run that cannot be read counts as not run, and is noted in `damaged`.
    """

    def __init__(self, runs: Path, replicates: int = 400):
        self.damaged: dict[str, str] = {}
        """By id, what is wrong with a run."""
        self._open: Callable[[Run], _Finished] = lru_cache(maxsize=16)(lambda run: _Finished(StoredRun.locate(runs, run)))
        self._value = cache(lambda run, *what: self._ask(run, lambda found: found.value(*what)))
        self._estimate = cache(lambda run, *what: self._ask(run, lambda found: found.estimate(replicates, *what)))

    def values(self, cell: Cell, metric: str, stage: Stage = "plain") -> dict[int, float]:
        """By seed, of the runs that are finished."""
        found = {run.seed: self._value(run, metric, stage, cell.unknown) for run in cell.runs}
        return {seed: value for seed, value in found.items() if value is not None}

    def estimates(self, cell: Cell, metric: str, stage: Stage = "plain") -> list[Estimate]:
        """With intervals, of the runs that are finished."""
        found = (self._estimate(run, metric, stage, cell.unknown) for run in cell.runs)
        return [each for each in found if each is not None]

    def curve(self, cell: Cell) -> list[float | None]:
        """Mean confidence in ten bins of lambda from 0.5 to 1, then of raw samples; nothing without finished runs."""
        found = [logits for run in cell.runs if (logits := self._ask(run, lambda finished: finished.mixed_and_raw)) is not None]
        return lambda_curve(found) if found else []

    def cost(self, run: Run) -> tuple[float, str] | None:
        """Seconds that a finished run took to train, and the machine that it was trained on."""
        return self._ask(run, lambda found: (found.stored.result().seconds, found.machine))

    def _ask(self, run: Run, question: Callable[["_Finished"], T | None]) -> T | None:
        try:
            found = self._open(run)
            return question(found) if found.stored.finished else None
        except InvalidInput as error:
            self.damaged[run.id] = str(error)
            return None


class _Finished:
    """The stored scores of a finished run."""

    def __init__(self, stored: StoredRun):
        self.stored = stored

    @property
    def machine(self) -> str:
        environment = self.stored.environment()
        if environment is None:
            return "unknown"
        version = environment.packages.get("torch")
        return ", ".join([*environment.devices[:1], *([f"torch {version}"] if version else [])])

    @cached_property
    def test(self) -> Scores:
        return self.stored.scores("test")

    @cached_property
    def temperature(self) -> dict[Stage, float]:
        fitted = fit_temperatures(self.stored.scores("val"))
        return {"plain": 1.0, "ece-grid": fitted["ece-grid"].temperature_, "nll": fitted["nll"].temperature_}

    def logits(self, stage: Stage) -> Float[Tensor, "N K"]:
        return self.test.logits / self.temperature[stage]

    def value(self, metric: str, stage: Stage, unknown: str) -> float | None:
        if metric == "auroc":
            found = self._auroc(stage, unknown)
            return None if found is None else found.value
        if metric in ("lambda_correlation", "raw_minus_mixed"):
            return self._hypothesis(metric)
        function = METRICS[metric].function
        assert function is not None  # every metric of a table has one
        return function(self.logits(stage), self.test.labels).item()

    def _auroc(self, stage: Stage, unknown: str) -> Estimate | None:
        """Of the entropies of unknown samples against those of test samples."""
        split = f"ood-{unknown_set_name(unknown)}"
        if not unknown or not self.stored.predictions_path(split).exists():
            return None
        outside = self.stored.scores(split)
        return auroc_estimate(ood_scores(self.logits(stage)), ood_scores(outside.logits / self.temperature[stage]))

    @property
    def mixed_and_raw(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """Logits and lambda of mixed test samples, and logits of raw ones."""
        mixed = self.stored.mixes()
        return None if mixed is None else (mixed.logits, mixed.lam, self.test.logits)

    def _hypothesis(self, metric: str) -> float | None:
        from scipy.stats import spearmanr

        if (found := self.mixed_and_raw) is None:
            return None
        mixed, lam, raw = found
        sure = confidence(mixed.double())
        if metric == "raw_minus_mixed":
            return (confidence(raw).mean() - sure.mean()).item()
        # Confidences that are all the same follow nothing.
        return 0.0 if sure.min() == sure.max() else float(spearmanr(sure.numpy(), lam.double().numpy()).statistic)

    def estimate(self, replicates: int, metric: str, stage: Stage, unknown: str) -> Estimate | None:
        if metric == "auroc":
            return self._auroc(stage, unknown)
        value = self.value(metric, stage, unknown)
        if value is None:
            return None
        if metric == "accuracy":
            return Estimate(value, *wilson_interval(value, len(self.test)))
        if metric not in METRICS or METRICS[metric].bins is None:
            return Estimate(value)
        samples = read_samples(self.logits(stage), self.test.labels, num_bins=15, from_logits=True)
        return gap_estimate(samples, metric, value, replicates, random.stream(self.stored.run.seed, "scorecard", metric, stage))
