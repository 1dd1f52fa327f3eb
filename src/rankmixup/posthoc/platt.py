"""Platt scaling: a scale and a bias of the logit of class 1, for two classes."""

from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from rankmixup.posthoc.base import CalibrationModule, Calibrator, Fitted, over_rows, register_calibrator

FLAT = 1e-9
"""Largest slope of the NLL, along logits in units of their spread, that counts as its optimum."""


class PlattModule(CalibrationModule):
    """Gives logits [0, scale * z + bias], where z is the logit of class 1 less that of class 0."""

    scale: Tensor
    bias: Tensor
    identity: ClassVar = {"scale": 1.0, "bias": 0.0}

    def forward(self, logits: Float[Tensor, "*batch 2"]) -> Float[Tensor, "*batch 2"]:
        exact = logits.to(self.scale.dtype)
        margin = (exact[..., 1:] - exact[..., :1]) * self.scale + self.bias
        return torch.cat([torch.zeros_like(margin), margin], dim=-1).to(logits.dtype)


@register_calibrator("platt")
class PlattScaling(Calibrator):
    """Makes sigmoid(a z + b) the probability of class 1 of two, where z is its logit less the other's (Platt, 1999).

    The NLL is convex in a and b; it is minimised by Newton's method. `objective="smoothed-nll"` is Platt's: with n samples of class 1 and m
    of class 0, they count as (n + 1) / (n + 2) and 1 / (m + 2) instead of 1 and 0, so that there always is a minimum.

    **Deviation:** `objective="nll"`, plain maximum likelihood, is the default. Where it has no maximum, the smoothed labels are used, and
    the report says that the fit did not converge.

    >>> logits = torch.tensor([2.0] * 4 + [-1.0] * 4)  # of class 1: right 3 times in 4 at 2, and 1 time in 4 at -1
    >>> scaler = PlattScaling().fit(logits, torch.tensor([1, 1, 1, 0, 0, 0, 0, 1]))
    >>> [round(p, 4) for p in scaler.predict_proba(logits)[:, 1].tolist()[::4]]
    [0.75, 0.25]
    """

    module_type = PlattModule
    objectives = ("nll", "smoothed-nll")
    binary = True

    def _fit(self, logits: Float[Tensor, "N 2"], target: Int[Tensor, " N"]) -> Fitted:
        z = torch.cat(over_rows(logits, lambda rows, _: rows[:, 1] - rows[:, 0]))
        note = no_optimum(z, target, smoothed=self.objective == "smoothed-nll")
        goal, positive = target.double(), int(target.sum())
        if note or self.objective == "smoothed-nll":
            goal = goal * (positive + 1) / (positive + 2) + (1 - goal) / (len(target) - positive + 2)
        scale, bias, slope = fit_logistic(z, goal)
        if not note and slope > FLAT:
            note = f"the search ended where the slope of the NLL is still {slope:.1e}"
        return Fitted(PlattModule(scale=scale, bias=bias), {"scale": scale, "bias": bias}, not note, note)


def no_optimum(z: Float[Tensor, " N"], target: Int[Tensor, " N"], *, smoothed: bool) -> str:
    """Why there is no best scale and bias, if there are none."""
    if bool((z == z[0]).all()):
        return "all logits are equal, so that any scale is as good"
    ones, zeros = z[target == 1], z[target == 0]
    if smoothed:
        return ""
    if len(ones) == 0 or len(zeros) == 0:
        return f"class {int(len(ones) == 0)} has no sample, so that the best bias is infinite; smoothed labels were used"
    if ones.min() >= zeros.max() or zeros.min() >= ones.max():
        return "the logits of the two classes do not overlap, so that the best scale is infinite; smoothed labels were used"
    return ""


def fit_logistic(z: Float[Tensor, " N"], goal: Float[Tensor, " N"]) -> tuple[float, float, float]:
    """Scale and bias with the least NLL by Newton's method with halved steps, and the largest slope that is left."""
    mean, spread = z.mean(), z.std(correction=0)
    # In units of their spread around their mean, so that scale and bias hardly pull on each other.
    x = torch.stack([(z - mean) / spread if spread > 0 else torch.zeros_like(z), torch.ones_like(z)], dim=1)
    found = torch.stack([torch.zeros((), dtype=torch.float64), torch.logit(goal.mean().clamp(1e-6, 1 - 1e-6))])

    def nll(at: Tensor) -> Tensor:
        margin = x @ at
        return (F.softplus(margin) - goal * margin).mean()

    for _ in range(100):
        probs = (x @ found).sigmoid()
        slopes = x.T @ (probs - goal) / len(z)
        if slopes.abs().max() <= 1e-13:
            break
        curvature = (x.T * (probs * (1 - probs))) @ x / len(z)
        step, now, length = torch.linalg.pinv(curvature, hermitian=True) @ slopes, nll(found), 1.0
        # Beyond rounding, a step must lower the NLL by a part of what its slope promises.
        while length > 1e-8 and nll(found - length * step) > now * (1 + 1e-15) - 1e-4 * length * (slopes @ step):
            length /= 2
        found = found - length * step
    slope = (x.T @ ((x @ found).sigmoid() - goal) / len(z)).abs().max().item()
    scale = (found[0] / spread).item() if spread > 0 else 0.0
    return scale, found[1].item() - scale * mean.item(), slope
