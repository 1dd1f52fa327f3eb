"""Does confidence follow lambda?"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import Tensor

from rankmixup.metrics.ranking import confidence_by_lambda
from rankmixup.reports.figures.style import labels, new_figure, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["confidence_by_lambda_figure"]


def confidence_by_lambda_figure(methods: Mapping[str, tuple[Tensor, Tensor]], raw: Mapping[str, float], *, num_bins: int = 10) -> "Figure":
    """Mean confidence of mixed samples against lambda, a line for each method, and of raw samples at the right.

    `methods` gives (confidences, lambdas) of mixed samples, `raw` the mean confidence of raw ones.
    """
    figure = new_figure(4.8, 3.6)
    axes = figure.subplots()
    axes.plot([0.5, 1], [0.5, 1], color="0.6", linewidth=1, label="confidence = λ (what a mixed label asks)")
    for position, (name, shown, (confidence, lam)) in enumerate(zip(methods, labels(methods), methods.values(), strict=True)):
        colour, line, marker = style(position)
        centres, means = confidence_by_lambda(confidence, lam, num_bins=num_bins)
        axes.plot(centres, means, color=colour, linestyle=line, marker=marker, markersize=5, linewidth=1.5, label=shown)
        axes.plot([1.02], [raw[name]], color=colour, marker=marker, markersize=9, markerfacecolor="none", linestyle="none", clip_on=False)
    axes.set(xlim=(0.49, 1.04), xlabel="λ, weight of the larger part of the mix", ylabel="mean confidence")
    axes.set_xticks([0.5, 0.6, 0.7, 0.8, 0.9, 1.02], ["0.5", "0.6", "0.7", "0.8", "0.9", "raw"])
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, frameon=False)
    return figure
