"""Vector scaling: a scale and a bias for each class."""

from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from rankmixup.errors import listed
from rankmixup.posthoc.base import CalibrationModule, Calibrator, Fitted, over_rows, register_calibrator
from rankmixup.posthoc.temperature import solve_temperature

_FLAT = 1e-6
"""Largest slope of the NLL, along logits in units of their spread, that counts as its optimum."""


class VectorModule(CalibrationModule):
    """Multiplies logits by the buffer `scale` and adds the buffer `bias`."""

    scale: Tensor
    bias: Tensor
    identity: ClassVar = {"scale": [1.0], "bias": [0.0]}

    def forward(self, logits: Float[Tensor, "*batch K"]) -> Float[Tensor, "*batch K"]:
        return logits * self.scale.to(logits.dtype) + self.bias.to(logits.dtype)


@register_calibrator("vector")
class VectorScaling(Calibrator):
    """Scales and shifts the logits of each class by its own numbers (Guo et al., 2017), which may change predictions.

    The NLL is convex in them; it is minimised from the best single temperature by L-BFGS with exact gradients. Adding one
    number to every bias changes nothing: the mean bias is 0.

    >>> logits = torch.tensor([[0.5, -0.5]] * 4 + [[-0.5, 0.5]] * 4)  # right 3 times in 4 on both sides: log-odds of ln 3
    >>> scaler = VectorScaling().fit(logits, torch.tensor([0, 0, 0, 1, 1, 1, 1, 0]))
    >>> [round(p, 4) for p in scaler.predict_proba(logits)[0].tolist()]
    [0.75, 0.25]
    """

    module_type = VectorModule

    def _fit(self, logits: Float[Tensor, "N K"], target: Int[Tensor, " N"]) -> Fitted:
        from scipy.optimize import minimize

        classes = logits.shape[1]
        # Logits in units of their spread around their mean: without it, scale and bias pull on each other and L-BFGS crawls.
        mean, spread = _moments(logits)
        start = np.full(classes, 1 / solve_temperature(logits, target)[0])

        def objective(x: NDArray[Any]) -> tuple[float, NDArray[Any]]:
            scale, bias = _natural(x, mean, spread)
            nll, by_scale, by_bias = _nll_and_slopes(logits, target, torch.from_numpy(scale), torch.from_numpy(bias))
            return nll, np.concatenate([(by_scale - mean * by_bias) / spread, by_bias])

        options = {"maxiter": 2000, "maxfun": 4000, "maxcor": 20, "ftol": 1e-15, "gtol": 1e-9}
        found = minimize(objective, np.concatenate([start * spread, start * mean]), jac=True, method="L-BFGS-B", options=options)
        scale, bias = _natural(found.x, mean, spread)
        bias -= bias.mean()
        module = VectorModule(scale=scale, bias=bias)
        note = _no_optimum(module, logits, target)
        if not note and np.abs(found.jac).max() > _FLAT:
            note = f"the search ended after {found.nit} steps where the likelihood still rises"
        return Fitted(module, {"scale": scale.tolist(), "bias": bias.tolist()}, not note, note)


def _no_optimum(module: VectorModule, logits: Tensor, target: Tensor) -> str:
    """Why the likelihood has no maximum at finite numbers, if it has none."""
    classes = logits.shape[1]
    missing = [f"class {label}" for label in (torch.bincount(target, minlength=classes) == 0).nonzero().flatten().tolist()]
    if missing:
        return f"{listed(missing, 1)} has no sample, so that the best bias is minus infinity"
    if all(over_rows(logits, lambda rows, place: bool((module(rows).argmax(dim=1) == target[place]).all()))):
        return "every sample can be made right, so that the best scales are infinite"
    return ""


def _natural(x: NDArray[Any], mean: NDArray[Any], spread: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Scale and bias of the logits themselves."""
    scaled, shift = np.split(x, 2)
    scale = scaled / spread
    return scale, shift - scale * mean


def _moments(logits: Tensor) -> tuple[NDArray[Any], NDArray[Any]]:
    """Mean and standard deviation of each column; 1 where it is constant."""
    mean = torch.stack(over_rows(logits, lambda rows, _: rows.sum(dim=0))).sum(dim=0) / len(logits)
    squares = over_rows(logits, lambda rows, _: (rows - mean).square().sum(dim=0))
    spread = (torch.stack(squares).sum(dim=0) / len(logits)).sqrt()
    return mean.numpy(), torch.where(spread > 0, spread, 1.0).numpy()


def _nll_and_slopes(logits: Tensor, target: Tensor, scale: Tensor, bias: Tensor) -> tuple[float, NDArray[Any], NDArray[Any]]:
    """Mean NLL and its derivatives by scale and bias."""

    def part(rows: Tensor, place: slice) -> tuple[Tensor, Tensor, Tensor]:
        index = target[place].unsqueeze(1)
        log_probs = torch.addcmul(bias, rows, scale)
        log_probs -= log_probs.logsumexp(dim=1, keepdim=True)
        nll = -log_probs.gather(1, index).sum()
        residual = log_probs.exp_().scatter_add_(1, index, -torch.ones_like(index, dtype=torch.float64))
        return nll, residual.sum(dim=0), residual.mul_(rows).sum(dim=0)

    nll, by_bias, by_scale = (torch.stack(column).sum(dim=0) / len(logits) for column in zip(*over_rows(logits, part), strict=True))
    return nll.item(), by_scale.numpy(), by_bias.numpy()
