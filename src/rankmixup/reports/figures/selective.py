"""How well confidence tells right from wrong: histograms of both, and risk against coverage."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from rankmixup.evaluation import Scores
from rankmixup.metrics.selective import risk_coverage
from rankmixup.metrics.ties import tie_groups
from rankmixup.reports.figures.style import ACCENT, BLUE, label, labels, new_figure, pooled_top_label, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["confidence_histogram_figure", "risk_coverage_figure"]

_POINTS = 150
"""Points of a curve: more cannot be seen, and a page with many curves stays small."""


def confidence_histogram_figure(methods: Mapping[str, Sequence[Scores]], *, num_bins: int = 20) -> "Figure":
    """Confidence of right and of wrong predictions, each as shares of its own kind; accuracy and mean confidence as lines."""
    columns = len(methods)
    figure = new_figure(2.9 * columns + 0.3, 3.2)
    axes = figure.subplots(1, columns, sharex=True, sharey=True, squeeze=False)[0]
    edges = np.linspace(0, 1, num_bins + 1)
    for panel, (name, runs) in zip(axes, methods.items(), strict=True):
        confidence, correct = (values.numpy() for values in pooled_top_label(runs))
        for kind, colour, line, hatch in ((1, BLUE, "-", ""), (0, ACCENT, "--", "////")):
            values = confidence[correct == kind]
            shares = np.histogram(values, edges)[0] / max(len(values), 1)
            panel.stairs(shares, edges, color=colour, linestyle=line, linewidth=1.5, label=f"{('wrong', 'right')[kind]} ({len(values):,})")
            panel.stairs(
                shares, edges, fill=True, facecolor="none" if hatch else colour, edgecolor=colour, hatch=hatch, alpha=0.3, linewidth=0
            )
        panel.axvline(correct.mean(), color="black", linewidth=1, label=f"accuracy {100 * correct.mean():.1f} %")
        panel.axvline(
            confidence.mean(), color="black", linewidth=1, linestyle=":", label=f"mean confidence {100 * confidence.mean():.1f} %"
        )
        panel.set(xlim=(0, 1), xticks=[0, 0.25, 0.5, 0.75, 1], xticklabels=["0", ".25", ".5", ".75", "1"])
        panel.set_title(label(name), fontsize=10)
        panel.legend(loc="upper left", fontsize=7, frameon=False)
    axes[0].set_ylabel("share of the right,\nof the wrong")
    figure.supxlabel("confidence", fontsize=10)
    return figure


def risk_coverage_figure(methods: Mapping[str, Sequence[Scores]]) -> "Figure":
    """Error among the most confident predictions, against how many of them are kept."""
    figure = new_figure(4.8, 3.6)
    axes = figure.subplots()
    for position, (name, runs) in enumerate(zip(labels(methods), methods.values(), strict=True)):
        risk = risk_coverage(tie_groups(*pooled_top_label(runs)))
        kept = torch.linspace(0, len(risk) - 1, min(_POINTS, len(risk))).round().long()
        coverage = (kept + 1) / len(risk)
        colour, line, marker = style(position)
        axes.plot(100 * coverage, 100 * risk[kept], color=colour, linestyle=line, marker=marker, markevery=0.12, markersize=4, label=name)
    axes.set(xlim=(0, 101), xlabel="coverage: most confident predictions kept, %", ylabel="risk: wrong among them, %")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, frameon=False)
    return figure
