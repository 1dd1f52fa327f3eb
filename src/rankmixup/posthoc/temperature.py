"""Temperature scaling: one number that divides all logits, fitted on held-out data."""

import math
import warnings
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from rankmixup.errors import InvalidInput, require
from rankmixup.metrics.calibration import bin_top_label
from rankmixup.metrics.inputs import check_scores

__all__ = ["FitReport", "TemperatureScaling"]

_LOWEST, _HIGHEST = 0.01, 100.0
"""Temperatures beyond these mean that the likelihood has no minimum (all right, or no better than chance)."""
_GRID = torch.arange(1, 101, dtype=torch.float64) / 10
"""The paper's grid: 0.1, 0.2, ..., 10."""


@dataclass(frozen=True)
class FitReport:
    """What a calibrator did when it was fitted."""

    method: str
    objective: str
    parameters: dict[str, float]
    converged: bool
    """False where the search ended on its boundary or ran out of steps."""
    samples: int
    before: dict[str, float]
    after: dict[str, float]
    """NLL and ECE on the data it was fitted on."""

    @property
    def verdict(self) -> str:
        """In plain words."""
        if not self.converged:
            return "did not converge: the best parameters lie on the boundary of the search"
        if self.after["nll"] > self.before["nll"]:
            return "lowers ECE on the fitted data but raises NLL" if self.after["ece"] < self.before["ece"] else "makes things worse"
        return "improves NLL on the fitted data" if self.after["nll"] < self.before["nll"] else "changes nothing"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {**self.__dict__, "verdict": self.verdict}


@dataclass
class TemperatureScaling:
    """Divides logits by a temperature T fitted on held-out data (Guo et al., 2017).

    **Deviation:** `objective="nll"` solves the likelihood equation, which is monotone in 1/T, to convergence;
    `"ece-grid"` is what the paper's tables used: the T among 0.1, 0.2, ..., 10 with the lowest 15-bin ECE, the smallest on a tie.

    >>> logits = torch.tensor([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0], [2.0, 0.0]])
    >>> scaler = TemperatureScaling().fit(logits, torch.tensor([0, 0, 0, 1]))  # right 3 times in 4: softmax must give 3/4
    >>> round(scaler.temperature_, 4), round(2 / math.log(3), 4)
    (1.8205, 1.8205)
    """

    objective: Literal["nll", "ece-grid"] = "nll"
    num_bins: int = 15
    temperature_: float = field(init=False, default=math.nan)
    report_: FitReport | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        require(self.objective in ("nll", "ece-grid"), f"objective must be 'nll' or 'ece-grid', got {self.objective!r}")
        require(self.num_bins >= 1, f"num_bins must be at least 1, got {self.num_bins}")

    def fit(self, logits: Float[Tensor, "N K"], target: Int[Tensor, " N"]) -> "TemperatureScaling":
        """Find T; the report of the fit is in `report_`."""
        check_scores(logits, target, from_logits=True)
        logits, target = logits.detach().double(), target.long()
        solve = self._solve_nll if self.objective == "nll" else self._search_grid
        temperature, converged = solve(logits, target)
        before, after = (self._figures(logits / t, target) for t in (1.0, temperature))
        self.temperature_ = temperature
        self.report_ = FitReport("temperature", self.objective, {"temperature": temperature}, converged, len(target), before, after)
        if not converged or self.report_.verdict == "makes things worse":
            warnings.warn(f"temperature scaling with T = {temperature:.4g} {self.report_.verdict}", stacklevel=2)
        return self

    def transform(self, logits: Float[Tensor, "N K"]) -> Float[Tensor, "N K"]:
        """Logits divided by the fitted temperature."""
        if self.report_ is None:
            raise InvalidInput("TemperatureScaling must be fitted before it transforms, call fit(logits, target) first")
        return logits / self.temperature_

    def predict_proba(self, logits: Float[Tensor, "N K"]) -> Float[Tensor, "N K"]:
        """Calibrated probabilities."""
        return self.transform(logits).softmax(dim=1)

    def _figures(self, logits: Tensor, target: Tensor) -> dict[str, float]:
        # Without the checks of the public metrics: `fit` has made them, and scaled logits may look like probabilities.
        confidence, prediction = logits.softmax(dim=1).max(dim=1)
        ece = bin_top_label(confidence, (prediction == target).to(confidence.dtype), self.num_bins).ece()
        return {"nll": F.cross_entropy(logits, target).item(), "ece": ece.item()}

    def _search_grid(self, logits: Tensor, target: Tensor) -> tuple[float, bool]:
        errors = [self._figures(logits / t, target)["ece"] for t in _GRID]
        best = min(range(len(_GRID)), key=errors.__getitem__)  # the first of equals
        return float(_GRID[best]), 0 < best < len(_GRID) - 1

    @staticmethod
    def _solve_nll(logits: Tensor, target: Tensor) -> tuple[float, bool]:
        """Root of d NLL / d(1/T), which grows with 1/T: Newton's steps, halving the bracket where they would leave it."""
        right = logits.gather(1, target.unsqueeze(1)).squeeze(1)

        def slope_and_curvature(scale: float) -> tuple[float, float]:
            probs = (logits * scale).softmax(dim=1)
            mean = (probs * logits).sum(dim=1)
            variance = (probs * logits.square()).sum(dim=1) - mean.square()
            return (mean - right).mean().item(), variance.mean().item()

        low, high = 1 / _HIGHEST, 1 / _LOWEST
        if slope_and_curvature(low)[0] >= 0:
            return _HIGHEST, False
        if slope_and_curvature(high)[0] <= 0:
            return _LOWEST, False
        scale = 1.0
        for _ in range(100):
            slope, curvature = slope_and_curvature(scale)
            low, high = (scale, high) if slope < 0 else (low, scale)
            step = scale - slope / curvature if curvature > 0 else math.nan
            proposal = step if low < step < high else math.sqrt(low * high)
            if abs(proposal - scale) <= 1e-12 * scale:
                return 1 / proposal, True
            scale = proposal
        return 1 / scale, False
