"""Temperature scaling: one number that divides all logits, fitted on held-out data."""

import math
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankmixup.metrics.calibration import bin_top_label
from rankmixup.posthoc.base import CalibrationModule, Calibrator, Fitted, over_rows, register_calibrator

LOWEST, HIGHEST = 0.01, 100.0
"""Temperatures beyond these mean that the likelihood has no minimum (all right, or no better than chance)."""
_GRID = tuple(step / 10 for step in range(1, 101))
"""The paper's grid: 0.1, 0.2, ..., 10."""
_COARSE = 2**20
"""Numbers of the sample of rows that gives a large fit its start."""


class TemperatureModule(CalibrationModule):
    """Divides logits by the buffer `temperature`."""

    temperature: Tensor
    identity: ClassVar = {"temperature": 1.0}

    def forward(self, logits: Float[Tensor, "*batch K"]) -> Float[Tensor, "*batch K"]:
        return logits / self.temperature.to(logits.dtype)


@register_calibrator("temperature")
class TemperatureScaling(Calibrator):
    """Divides logits by a temperature T fitted on held-out data (Guo et al., 2017).

    **Deviation:** `objective="nll"` solves the likelihood equation, which is monotone in 1/T, to convergence;
    `"ece-grid"` is what the paper's tables used: the T among 0.1, 0.2, ..., 10 with the lowest 15-bin ECE, the smallest on a tie.

    >>> logits = torch.tensor([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0], [2.0, 0.0]])
    >>> scaler = TemperatureScaling().fit(logits, torch.tensor([0, 0, 0, 1]))  # right 3 times in 4: softmax must give 3/4
    >>> round(scaler.temperature_, 4), round(2 / math.log(3), 4)
    (1.8205, 1.8205)
    """

    module_type = TemperatureModule
    objectives = ("nll", "ece-grid")
    keeps_predictions = True

    @property
    def temperature_(self) -> float:
        """The fitted temperature; NaN before the fit."""
        return math.nan if self._module is None else float(self.report_.parameters["temperature"])  # type: ignore[arg-type]

    def _fit(self, logits: Float[Tensor, "N K"], target: Int[Tensor, " N"]) -> Fitted:
        search = solve_temperature if self.objective == "nll" else self._search_grid
        temperature, converged = search(logits, target)
        return Fitted(TemperatureModule(temperature=temperature), {"temperature": temperature}, converged)

    def _search_grid(self, logits: Tensor, target: Tensor) -> tuple[float, bool]:
        def confidences(rows: Tensor, _: slice) -> Tensor:
            below_top = rows - rows.amax(dim=1, keepdim=True)
            return torch.stack([(below_top / temperature).exp_().sum(dim=1).reciprocal_() for temperature in _GRID])

        confidence = torch.cat(over_rows(logits, confidences), dim=1)
        correct = (logits.argmax(dim=1) == target).double()
        errors = [bin_top_label(row, correct, self.num_bins).ece().item() for row in confidence]
        best = min(range(len(_GRID)), key=errors.__getitem__)  # the first of equals
        return _GRID[best], 0 < best < len(_GRID) - 1


def solve_temperature(logits: Float[Tensor, "N K"], target: Int[Tensor, " N"]) -> tuple[float, bool]:
    """The T with the least NLL, and whether it is an optimum rather than the end of the search.

    A sample of the rows brings Newton's method close, so that the whole of a large matrix is read two or three times.
    """
    stride = logits.numel() // _COARSE
    start = _root(logits[::stride], target[::stride], 1.0)[0] if stride > 1 else 1.0
    scale, converged = _root(logits, target, start)
    return 1 / scale, converged


def _root(logits: Tensor, target: Tensor, scale: float) -> tuple[float, bool]:
    """Root of d NLL / d(1/T), which grows with 1/T: Newton's steps from `scale`, halving the bracket where they do not close in."""
    low, high = ends = 1 / HIGHEST, 1 / LOWEST
    previous = math.inf
    for _ in range(100):
        slope, curvature = _slope_and_curvature(logits, target, scale)
        if slope == 0:
            return scale, True
        low, high = (scale, high) if slope < 0 else (low, scale)
        step = slope / curvature if curvature > 0 else math.inf
        if low < scale - step < high and abs(step) <= previous / 2:
            # The error of a Newton step is about the square of its length.
            if abs(step) <= 1e-6 * scale:
                return scale - step, True
            proposal = scale - step
        else:
            end = high if slope < 0 else low
            if end in ends and _slope_and_curvature(logits, target, end)[0] * slope >= 0:
                return end, False
            proposal = math.sqrt(low * high)
            if high / low - 1 < 1e-12:
                return proposal, True
        previous, scale = abs(proposal - scale), proposal
    return scale, False


def _slope_and_curvature(logits: Tensor, target: Tensor, scale: float) -> tuple[float, float]:
    """First and second derivative of the mean NLL by 1/T."""

    def part(rows: Tensor, place: slice) -> tuple[float, float]:
        below_top = rows - rows.amax(dim=1, keepdim=True)
        weighted = (below_top * scale).exp_()
        total = weighted.sum(dim=1)
        mean = weighted.mul_(below_top).sum(dim=1) / total
        square = weighted.mul_(below_top).sum(dim=1) / total
        right = below_top.gather(1, target[place].unsqueeze(1)).squeeze(1)
        return (mean - right).sum().item(), (square - mean.square()).sum().item()

    slopes, curvatures = zip(*over_rows(logits, part), strict=True)
    return math.fsum(slopes) / len(logits), math.fsum(curvatures) / len(logits)
