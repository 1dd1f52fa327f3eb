"""Curves: risk against coverage, errors against temperature, confidence against lambda, and densities of OOD scores."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rankmixup.evaluation.diagrams import Numbers, ScoreDensities, TemperatureCurve
from rankmixup.reports.figures.style import ACCENT, BLUE, GREY, finish, label, new_axes, new_figure, series, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def risk_coverage_figure(methods: Mapping[str, tuple[Numbers, Numbers]]) -> "Figure":
    """Error among the most confident predictions, against how many of them are kept."""
    figure, axes = new_axes(4.8, 3.6)
    for (coverage, risk), drawn in series(methods):
        axes.plot(100 * coverage, 100 * risk, markevery=0.12, markersize=4, **drawn)
    axes.set(xlim=(0, 101), xlabel="coverage: most confident predictions kept, %", ylabel="risk: wrong among them, %")
    axes.set_ylim(bottom=0)
    finish(axes)
    return figure


def confidence_by_lambda_figure(methods: Mapping[str, Sequence[float | None]]) -> "Figure":
    """Mean confidence in equal bins of lambda from 0.5 to 1 as a line for each method; the last value, of raw samples, at the right."""
    figure, axes = new_axes(4.8, 3.6)
    axes.plot([0.5, 1], [0.5, 1], color="0.6", linewidth=1, label="confidence = λ (what a mixed label asks)")
    for values, drawn in series(methods):
        *means, raw = (np.nan if value is None else value for value in values)
        centres = 0.5 + (np.arange(len(means)) + 0.5) / (2 * len(means))
        axes.plot(centres, means, markersize=5, linewidth=1.5, **drawn)
        unlabelled = drawn | {"linestyle": "none", "label": None}
        axes.plot([1.02], [raw], markersize=9, markerfacecolor="none", clip_on=False, **unlabelled)
    axes.set(xlim=(0.49, 1.04), xlabel="λ, weight of the larger part of the mix", ylabel="mean confidence")
    axes.set_xticks([0.5, 0.6, 0.7, 0.8, 0.9, 1.02], ["0.5", "0.6", "0.7", "0.8", "0.9", "raw"])
    finish(axes)
    return figure


def dial_figure(dials: Mapping[str, Sequence[float]]) -> "Figure":
    """The value of each dial in every epoch."""
    figure, axes = new_axes(4.8, 3.0)
    for values, drawn in series(dials):
        axes.plot(range(1, len(values) + 1), values, markersize=3, linewidth=1.2, **drawn)
    axes.set(xlabel="epoch", ylabel="value")
    finish(axes)
    return figure


def ood_figure(found: ScoreDensities) -> "Figure":
    """Densities of OOD scores (the larger, the less like the training data): of the test set, filled, and of each other set, a line."""
    figure, axes = new_axes(4.8, 3.2)
    for position, (name, density) in enumerate(found.densities.items()):
        colour, line, _ = style(position)
        outline, area = {"color": colour, "linestyle": line, "linewidth": 1.5}, {"color": GREY, "fill": True, "alpha": 0.5}
        drawn: dict[str, Any] = outline if position else area
        axes.stairs(density, found.edges, label=f"{label(name)} ({found.sizes[name]:,})", **drawn)
    # Most scores of a confident network lie at the left end; on a linear axis nothing else would show.
    axes.set_yscale("symlog", linthresh=0.1)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set(xlabel=f"{label(found.score)} score", ylabel="density")
    axes.legend(fontsize=8, frameon=False)
    return figure


def temperature_figure(methods: Mapping[str, TemperatureCurve]) -> "Figure":
    """NLL and ECE against the temperature that divides the logits; the fitted temperature, where given, as a line."""
    columns = len(methods)
    figure = new_figure(3.4 * columns + 0.3, 4.2)
    axes = figure.subplots(2, columns, sharex="col", squeeze=False)
    for column, (name, curve) in enumerate(methods.items()):
        above, below = axes[:, column]
        _temperature_panel(above, curve, np.asarray(curve.nll), BLUE, "-")
        _temperature_panel(below, curve, 100 * np.asarray(curve.ece), ACCENT, "--")
        above.set_title(label(name), fontsize=10, pad=20)
        above.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=7, frameon=False, columnspacing=1)
    axes[0][0].set_ylabel("NLL")
    axes[1][0].set_ylabel("ECE, %")
    figure.supxlabel("temperature T", fontsize=10)
    return figure


def _temperature_panel(panel: Any, curve: TemperatureCurve, values: Any, colour: str, line: str) -> None:
    temperatures = curve.temperatures
    panel.plot(temperatures, values, color=colour, linestyle=line, linewidth=1.5)
    lowest = int(values.argmin())
    panel.plot(temperatures[lowest], values[lowest], color=colour, marker="v", markersize=6, linestyle="none", label="lowest here")
    if curve.fitted is not None:
        panel.axvline(curve.fitted, color="black", linewidth=1, label=f"fitted: T = {curve.fitted:.3g}")
    panel.axvline(1, color="black", linewidth=0.8, linestyle=":", label="as trained: T = 1")
    panel.set_xscale("log")
    nice = [value for power in range(-3, 4) for digit in (1, 2, 5) if temperatures[0] <= (value := digit * 10.0**power) <= temperatures[-1]]
    panel.set_xticks(nice, [f"{value:g}" for value in nice])
    panel.minorticks_off()
    # A tiny temperature makes wrong answers cost without bound; what is near the best is what one wants to see.
    floor, top = float(values.min()), float(np.quantile(values, 0.9))
    if math.isfinite(top) and top > floor:
        panel.set_ylim(floor - 0.08 * (top - floor), top)
    panel.grid(alpha=0.3)
