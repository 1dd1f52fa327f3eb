"""The direction of miscalibration, and what a temperature does to it."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankmixup.evaluation import Scores
from rankmixup.metrics.calibration import bin_top_label
from rankmixup.reports.figures.style import ACCENT, BLUE, label, labels, new_figure, pooled_top_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["over_under_figure", "temperature_curve", "temperature_figure"]


def over_under_figure(methods: Mapping[str, Sequence[Scores]], *, num_bins: int = 15) -> "Figure":
    """Underconfidence (UE) to the left and overconfidence (OE) to the right, a bar for each method."""
    figure = new_figure(4.8, 1.3 + 0.3 * len(methods))
    axes = figure.subplots()
    bins = [bin_top_label(*pooled_top_label(runs), num_bins) for runs in methods.values()]
    rows = np.arange(len(methods))
    over, under = ([100 * getattr(each, key)().item() for each in bins] for key in ("oe", "ue"))
    axes.barh(rows, [-value for value in under], color="none", edgecolor=BLUE, hatch="////", linewidth=1, label="underconfidence, UE")
    axes.barh(rows, over, color=ACCENT, edgecolor=ACCENT, linewidth=1, label="overconfidence, OE")
    reach = 1.5 * max(*over, *under, 0.1)
    for row, (right, left) in enumerate(zip(over, under, strict=True)):
        axes.annotate(f"{right:.2f}", (right, row), xytext=(3, 0), textcoords="offset points", va="center", fontsize=8)
        axes.annotate(f"{left:.2f}", (-left, row), xytext=(-3, 0), textcoords="offset points", va="center", ha="right", fontsize=8)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set(xlim=(-reach, reach), xlabel="%")
    axes.set_yticks(rows, labels(methods), fontsize=8)
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    figure.legend(loc="outside upper center", ncols=2, fontsize=8, frameon=False)
    return figure


def temperature_curve(
    logits: Float[Tensor, "N K"], target: Int[Tensor, " N"], temperatures: Sequence[float], *, num_bins: int = 15
) -> tuple[list[float], list[float]]:
    """NLL and ECE of `logits / T` for each temperature.

    >>> nll, ece = temperature_curve(torch.tensor([[2.0, 0.0]] * 4), torch.tensor([0, 0, 0, 1]), [2 / math.log(3)])
    >>> round(nll[0], 4), round(ece[0], 4)  # entropy of (3/4, 1/4), and calibrated
    (0.5623, 0.0)
    """
    top, prediction = logits.max(dim=1)
    # Differences to the largest logit, once: a temperature then costs one exponential of each.
    below = logits - top.unsqueeze(1)
    own = below.gather(1, target.unsqueeze(1)).squeeze(1).double()
    correct = (prediction == target).double()
    nll, ece = [], []
    for temperature in temperatures:
        total = torch.cat([(part / temperature).exp_().sum(dim=1, dtype=torch.float64) for part in below.split(4096)])
        nll.append((total.log() - own / temperature).mean().item())
        ece.append(bin_top_label(1 / total, correct, num_bins).ece().item())
    return nll, ece


def temperature_figure(methods: Mapping[str, tuple[Scores, float | None]], *, num_bins: int = 15, points: int = 41) -> "Figure":
    """NLL and ECE of scores against the temperature that divides their logits; the fitted temperature, where given, as a line."""
    columns = len(methods)
    figure = new_figure(3.4 * columns + 0.3, 4.2)
    axes = figure.subplots(2, columns, sharex="col", squeeze=False)
    for column, (name, (scores, fitted)) in enumerate(methods.items()):
        middle = fitted or 1.0
        temperatures = np.geomspace(min(0.4, 0.5 * middle), max(2.5, 2 * middle), points)
        curves = temperature_curve(scores.logits.cpu(), scores.labels.cpu(), temperatures.tolist(), num_bins=num_bins)
        scaled = ("NLL", 1.0, curves[0], BLUE, "-"), ("ECE, %", 100.0, curves[1], ACCENT, "--")
        for panel, (title, scale, values, colour, line) in zip(axes[:, column], scaled, strict=True):
            _curve(panel, temperatures, scale * np.asarray(values), colour, line, fitted)
            if column == 0:
                panel.set_ylabel(title)
        axes[0][column].set_title(label(name), fontsize=10, pad=20)
        axes[0][column].legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=7, frameon=False, columnspacing=1)
    figure.supxlabel("temperature T", fontsize=10)
    return figure


def _curve(panel: Any, temperatures: Any, values: Any, colour: str, line: str, fitted: float | None) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    panel.plot(temperatures, values, color=colour, linestyle=line, linewidth=1.5)
    lowest = int(values.argmin())
    panel.plot(temperatures[lowest], values[lowest], color=colour, marker="v", markersize=6, linestyle="none", label="lowest here")
    if fitted is not None:
        panel.axvline(fitted, color="black", linewidth=1, label=f"fitted: T = {fitted:.3g}")
    panel.axvline(1, color="black", linewidth=0.8, linestyle=":", label="as trained: T = 1")
    panel.set_xscale("log")
    nice = [value for power in range(-3, 4) for digit in (1, 2, 5) if temperatures[0] <= (value := digit * 10.0**power) <= temperatures[-1]]
    panel.xaxis.set_major_locator(FixedLocator(nice))
    panel.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panel.xaxis.set_minor_locator(NullLocator())
    # A tiny temperature makes wrong answers cost without bound; what is near the best is what one wants to see.
    floor, top = float(values.min()), float(np.quantile(values, 0.9))
    if math.isfinite(top) and top > floor:
        panel.set_ylim(floor - 0.08 * (top - floor), top)
    panel.grid(alpha=0.3)
