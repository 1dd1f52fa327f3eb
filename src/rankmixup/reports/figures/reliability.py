"""Reliability diagrams: accuracy against confidence, with what is chance."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankmixup.evaluation import Scores
from rankmixup.metrics.calibration import Bins, bin_top_label
from rankmixup.reports.figures.style import ACCENT, GREY, label, new_figure, pooled_top_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["accuracy_interval", "consistency_band", "reliability_figure"]


def consistency_band(count: NDArray[np.float64], confidence: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where the accuracy of a bin lies in 95 % of draws if its predictions are right as often as they say.

    Binomial quantiles around the mean confidence; confidences that differ within the bin make the truth a little narrower.

    >>> low, high = consistency_band(np.array([100.0]), np.array([0.9]))
    >>> low.item(), high.item()
    (0.84, 0.95)
    """
    from scipy import stats

    low, high = (stats.binom.ppf(level, count, confidence.clip(0, 1)) / count for level in (0.025, 0.975))
    return low, high


def accuracy_interval(count: NDArray[np.float64], correct: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Clopper and Pearson's 95 % interval of a bin's accuracy.

    >>> low, high = accuracy_interval(np.array([10.0]), np.array([10.0]))
    >>> round(low.item(), 4), high.item()  # 0.025 ** (1 / 10)
    (0.6915, 1.0)
    """
    from scipy import stats

    # At 0 and at all right the Beta distribution has no mass to take a quantile of: the interval reaches the border.
    low = np.where(correct > 0, stats.beta.ppf(0.025, np.maximum(correct, 1), count - correct + 1), 0.0)
    high = np.where(correct < count, stats.beta.ppf(0.975, correct + 1, np.maximum(count - correct, 1)), 1.0)
    return low, high


def reliability_figure(methods: Mapping[str, Sequence[Scores]], *, num_bins: int = 15) -> "Figure":
    """A reliability diagram for each method, its runs pooled: accuracy against confidence, with the samples in each bin below.

    A grey box spans the accuracies that a calibrated model shows by chance in 95 % of draws, a bar the 95 % interval of the accuracy.
    """
    columns = len(methods)
    figure = new_figure(2.9 * columns + 0.3, 4.6)
    axes = figure.subplots(2, columns, sharex=True, sharey="row", squeeze=False, height_ratios=(3, 1))
    for column, (name, runs) in enumerate(methods.items()):
        bins = bin_top_label(*pooled_top_label(runs), num_bins)
        _accuracies(axes[0][column], name, bins)
        _counts(axes[1][column], bins)
        axes[1][column].set_xlabel("confidence")
    axes[0][0].set_ylabel("accuracy")
    axes[1][0].set_ylabel("samples")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2 if columns == 1 else 3, fontsize=7, frameon=False)
    return figure


def _accuracies(axes: "Axes", name: str, bins: Bins) -> None:
    filled = (bins.count > 0).numpy()
    count, correct, accuracy, confidence = (
        values.numpy()[filled] for values in (bins.count, bins.correct, bins.accuracy, bins.mean_confidence)
    )
    width = 1 / len(filled)
    centres = ((np.arange(len(filled)) + 0.5) * width)[filled]
    low, high = consistency_band(count, confidence)
    axes.bar(centres, high - low, width, bottom=low, color=GREY, alpha=0.35, linewidth=0, label="calibrated, by chance")
    axes.bar(
        centres,
        np.abs(confidence - accuracy),
        0.7 * width,
        bottom=np.minimum(accuracy, confidence),
        color="none",
        edgecolor=ACCENT,
        hatch="//////",
        linewidth=0.5,
        label="gap to confidence",
    )
    low, high = accuracy_interval(count, correct)
    axes.errorbar(
        centres,
        accuracy,
        yerr=np.stack([accuracy - low, high - accuracy]).clip(min=0),
        fmt="o",
        color="black",
        markersize=3.5,
        elinewidth=1,
        capsize=2,
        label="accuracy, 95 % interval",
    )
    axes.plot([0, 1], [0, 1], color="black", linewidth=0.8, linestyle="--")
    axes.set(xlim=(0, 1), ylim=(0, 1), xticks=[0, 0.25, 0.5, 0.75, 1], xticklabels=["0", ".25", ".5", ".75", "1"])
    axes.set_title(f"{label(name)}\nECE {100 * bins.ece():.2f} %", fontsize=10)


def _counts(axes: "Axes", bins: Bins) -> None:
    """On a logarithmic axis: nine samples in ten lie in the last bin of most networks."""
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator, StrMethodFormatter

    width = 1 / len(bins.count)
    axes.bar((np.arange(len(bins.count)) + 0.5) * width, bins.count.numpy(), 0.9 * width, color=GREY, linewidth=0)
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.7)
    axes.yaxis.set_major_locator(LogLocator(numticks=4))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_formatter(NullFormatter())
