"""Confidence against accuracy: reliability diagrams, over- and underconfidence, and histograms of confidence."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rankmixup.evaluation.diagrams import ConfidenceHistogram, Reliability
from rankmixup.reports.figures.style import ACCENT, BLUE, GREY, label, labels, new_axes, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CONFIDENCE_AXIS: dict[str, Any] = {"xlim": (0, 1), "xticks": [0, 0.25, 0.5, 0.75, 1], "xticklabels": ["0", ".25", ".5", ".75", "1"]}
_BELOW_LEGEND = 0.7
"""Share of the height of a histogram that its bars fill; the legend stands above them."""


def reliability_figure(methods: Mapping[str, Reliability]) -> "Figure":
    """A reliability diagram for each method: accuracy against confidence, with the samples in each bin below.

    Of one class, the axes are its probability and its frequency.

    A grey box spans the accuracies that a calibrated model shows in 95 % of draws, a bar the 95 % interval of the accuracy.
    """
    columns = len(methods)
    figure = new_figure(2.9 * columns + 0.3, 4.6)
    axes = figure.subplots(2, columns, sharex=True, sharey="row", squeeze=False, height_ratios=(3, 1))
    for column, (name, found) in enumerate(methods.items()):
        _accuracies(axes[0][column], name, found)
        _counts(axes[1][column], found)
        axes[1][column].set_xlabel("probability" if found.positive else "confidence")
    axes[0][0].set_ylabel("frequency" if next(iter(methods.values())).positive else "accuracy")
    axes[1][0].set_ylabel("samples")
    handles_and_names = axes[0][0].get_legend_handles_labels()
    figure.legend(*handles_and_names, loc="outside lower center", ncols=2 if columns == 1 else 3, fontsize=7, frameon=False)
    return figure


def _accuracies(axes: "Axes", name: str, found: Reliability) -> None:
    filled, width = found.count > 0, 1 / len(found.count)
    across, up = ("probability", "frequency") if found.positive else ("confidence", "accuracy")
    centres = ((np.arange(len(filled)) + 0.5) * width)[filled]
    accuracy, confidence, low, high = (each[filled] for each in (found.accuracy, found.confidence, found.low, found.high))
    bottom, top = found.calibrated_low[filled], found.calibrated_high[filled]
    axes.bar(centres, top - bottom, width, bottom=bottom, color=GREY, alpha=0.35, linewidth=0, label="calibrated, 95 % of draws")
    hatched: dict[str, Any] = {"color": "none", "edgecolor": ACCENT, "hatch": "//////", "linewidth": 0.5, "label": f"gap to {across}"}
    axes.bar(centres, np.abs(confidence - accuracy), 0.7 * width, bottom=np.minimum(accuracy, confidence), **hatched)
    margins = np.stack([accuracy - low, high - accuracy]).clip(min=0)
    points: dict[str, Any] = {"fmt": "o", "color": "black", "markersize": 3.5, "elinewidth": 1, "capsize": 2}
    axes.errorbar(centres, accuracy, yerr=margins, label=f"{up}, 95 % interval", **points)
    axes.plot([0, 1], [0, 1], color="black", linewidth=0.8, linestyle="--")
    axes.set(ylim=(0, 1), **_CONFIDENCE_AXIS)
    axes.set_title(f"{label(name)}\nECE {100 * found.ece:.2f} %", fontsize=10)


def _counts(axes: "Axes", found: Reliability) -> None:
    """On a logarithmic axis: nine samples in ten lie in the last bin of most networks."""
    from matplotlib.ticker import LogLocator

    width = 1 / len(found.count)
    axes.bar((np.arange(len(found.count)) + 0.5) * width, found.count, 0.9 * width, color=GREY, linewidth=0)
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.7)
    axes.yaxis.set_major_locator(LogLocator(numticks=4))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.minorticks_off()


def over_under_figure(methods: Mapping[str, Reliability]) -> "Figure":
    """Underconfidence (UE) to the left and overconfidence (OE) to the right, a bar for each method."""
    figure, axes = new_axes(4.8, 1.3 + 0.3 * len(methods))
    rows = np.arange(len(methods))
    over, under = ([100 * getattr(each, key) for each in methods.values()] for key in ("oe", "ue"))
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


def confidence_histogram_figure(methods: Mapping[str, ConfidenceHistogram]) -> "Figure":
    """Confidence of right and of wrong predictions, each as shares of its own kind; accuracy and mean confidence as lines."""
    figure = new_figure(2.9 * len(methods) + 0.3, 3.2)
    axes = figure.subplots(1, len(methods), sharex=True, sharey=True, squeeze=False)[0]
    for panel, (name, found) in zip(axes, methods.items(), strict=True):
        for kind, shares, count, colour, line, hatch in (
            ("right", found.right, found.right_count, BLUE, "-", ""),
            ("wrong", found.wrong, found.wrong_count, ACCENT, "--", "////"),
        ):
            panel.stairs(shares, found.edges, color=colour, linestyle=line, linewidth=1.5, label=f"{kind} ({count:,})")
            filling = {"facecolor": "none" if hatch else colour, "edgecolor": colour, "hatch": hatch, "alpha": 0.3, "linewidth": 0}
            panel.stairs(shares, found.edges, fill=True, **filling)
        for value, line, title in ((found.accuracy, "-", "accuracy"), (found.mean_confidence, ":", "mean confidence")):
            drawn = {"color": "black", "linewidth": 1, "linestyle": line, "ymax": _BELOW_LEGEND}
            panel.axvline(value, label=f"{title} {100 * value:.1f} %", **drawn)
        panel.set(**_CONFIDENCE_AXIS)
        panel.set_title(label(name), fontsize=10)
        panel.legend(loc="upper left", fontsize=7, frameon=False)
    tallest = max(float(max(*found.right, *found.wrong)) for found in methods.values())
    axes[0].set_ylim(0, tallest / _BELOW_LEGEND)
    axes[0].set_ylabel("share of the right,\nof the wrong")
    figure.supxlabel("confidence", fontsize=10)
    return figure
