"""Ensemble temperature scaling: a mixture of scaled, raw and uniform probabilities."""

from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from rankmixup.posthoc.base import CalibrationModule, Calibrator, Fitted, over_rows, register_calibrator
from rankmixup.posthoc.temperature import solve_temperature

_GAP = 1e-6
"""How far above its minimum the NLL of the weights may be."""


class EnsembleModule(CalibrationModule):
    """Log-probabilities of the mixture with the buffers `temperature` and `weights` (scaled, raw, uniform)."""

    temperature: Tensor
    weights: Tensor
    identity: ClassVar = {"temperature": 1.0, "weights": [0.0, 1.0, 0.0]}

    def forward(self, logits: Float[Tensor, "*batch K"]) -> Float[Tensor, "*batch K"]:
        scaled, raw, uniform = self.weights.to(logits.dtype).log().unbind()
        cooled = (logits / self.temperature.to(logits.dtype)).log_softmax(dim=-1)
        equal = torch.zeros_like(logits) - float(np.log(logits.shape[-1]))
        return torch.stack([cooled + scaled, logits.log_softmax(dim=-1) + raw, equal + uniform]).logsumexp(dim=0)


@register_calibrator("ensemble-temperature")
class EnsembleTemperatureScaling(Calibrator):
    """Mixes temperature-scaled, raw and uniform probabilities (Zhang et al., 2020), which keeps the ranking of the classes.

    The temperature is the one with the least NLL; given it, the NLL is convex in the three weights, which lie on the simplex.

    >>> logits = torch.tensor([[9.0, 0.0]] * 4 + [[2.0, 0.0]] * 4)  # as unsure at 9 as at 2: a uniform part helps
    >>> scaler = EnsembleTemperatureScaling().fit(logits, torch.tensor([0, 0, 0, 1, 0, 0, 0, 1]))
    >>> [round(p, 2) for p in scaler.predict_proba(logits)[:, 0].tolist()][::4]
    [0.78, 0.71]
    """

    module_type = EnsembleModule
    keeps_predictions = True

    def _fit(self, logits: Float[Tensor, "N K"], target: Int[Tensor, " N"]) -> Fitted:
        temperature, converged = solve_temperature(logits, target)

        def log_likelihoods(rows: Tensor, place: slice) -> Tensor:
            """Log-probability of the right class under each of the three parts."""
            index = target[place].unsqueeze(1)
            both = [each.gather(1, index) - each.logsumexp(dim=1, keepdim=True) for each in (rows / temperature, rows)]
            return torch.cat([*both, torch.full_like(both[0], -float(np.log(logits.shape[1])))], dim=1)

        weights, gap = _best_weights(torch.cat(over_rows(logits, log_likelihoods)).numpy())
        note = f"the NLL of the weights may be {gap:.1e} above its minimum" if converged and gap > _GAP else ""
        parameters: dict[str, float | list[float]] = {"temperature": temperature, "weights": weights.tolist()}
        return Fitted(EnsembleModule(**parameters), parameters, converged and not note, note)


def _best_weights(log_likelihoods: NDArray[Any]) -> tuple[NDArray[Any], float]:
    """Weights on the simplex with the least NLL, and a bound on how far it is above the minimum."""
    from scipy.optimize import minimize

    # Of no consequence for the weights, and nothing underflows.
    likelihoods = np.exp(log_likelihoods - log_likelihoods.max(axis=1, keepdims=True))

    def slopes(weights: NDArray[Any]) -> NDArray[Any]:
        return (likelihoods / (likelihoods @ weights)[:, None]).mean(axis=0)

    simplex = {"type": "eq", "fun": lambda weights: weights.sum() - 1, "jac": np.ones_like}
    search: dict[str, Any] = {"method": "SLSQP", "bounds": [(1e-12, 1)] * 3, "options": {"ftol": 1e-15, "maxiter": 500}}
    start, slope = np.full(3, 1 / 3), lambda weights: -slopes(weights)
    found = minimize(lambda weights: -np.log(likelihoods @ weights).mean(), start, jac=slope, constraints=simplex, **search)
    weights = np.where(found.x <= 1e-11, 0, found.x) / found.x.sum()
    for _ in range(100):
        # A step of expectation-maximisation never raises the NLL and ends on the simplex exactly.
        weights = weights * slopes(weights)
        weights /= weights.sum()
    # The NLL is convex: by its slopes, no weights are better by more than this.
    return weights, float(slopes(weights).max() - 1)
