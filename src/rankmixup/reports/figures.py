"""Figures: told apart by marker and line as well as by colour, so that a grey print says the same."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rankmixup.metrics.calibration import Bins, bin_top_label
from rankmixup.metrics.ranking import confidence_by_lambda
from rankmixup.runs import Scores

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["confidence_by_lambda_figure", "reliability_figure", "save_figure"]

_STYLES = [  # Okabe and Ito's colours, in an order whose lightness also differs between neighbours
    ("#000000", "-", "o"),
    ("#E69F00", "--", "s"),
    ("#0072B2", "-.", "^"),
    ("#CC79A7", ":", "D"),
    ("#009E73", "-", "v"),
    ("#56B4E9", "--", "P"),
]


def save_figure(figure: "Figure", path: Path) -> list[Path]:
    """Write `path` as PNG and as SVG; returns both paths."""
    paths = [path.with_suffix(suffix) for suffix in (".png", ".svg")]
    for target in paths:
        figure.savefig(target, dpi=150, bbox_inches="tight", metadata={"Date": None} if target.suffix == ".svg" else None)
    return paths


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def reliability_figure(methods: Mapping[str, Sequence[Scores]], *, num_bins: int = 15) -> "Figure":
    """A reliability diagram for each method, its runs pooled: accuracy against confidence, with the samples in each bin below."""
    columns = len(methods)
    figure = _figure(2.9 * columns, 4.2)
    axes = figure.subplots(2, columns, sharex=True, sharey="row", squeeze=False, height_ratios=(3, 1))
    for column, (name, runs) in enumerate(methods.items()):
        tops = [scores.probs.max(dim=1) for scores in runs]
        confidence = torch.cat([top.values for top in tops])
        correct = torch.cat([(top.indices == scores.labels).to(top.values.dtype) for top, scores in zip(tops, runs, strict=True)])
        bins = bin_top_label(confidence, correct, num_bins)
        _reliability(axes[0][column], name, bins)
        _histogram(axes[1][column], bins)
    axes[0][0].set_ylabel("accuracy")
    axes[1][0].set_ylabel("share of\nsamples")
    axes[0][0].legend(loc="upper left", fontsize=8, frameon=False)
    figure.supxlabel("confidence", fontsize=10)
    return figure


def _edges(bins: Bins) -> tuple[Tensor, float]:
    width = 1 / len(bins.count)
    return (torch.arange(len(bins.count)) + 0.5) * width, width


def _reliability(axes: "Axes", name: str, bins: Bins) -> None:
    centres, width = _edges(bins)
    filled = bins.count > 0
    accuracy, confidence = bins.accuracy[filled], bins.mean_confidence[filled]
    axes.bar(centres[filled], accuracy, width, color="#9ecae1", edgecolor="white", linewidth=0.5, label="accuracy")
    axes.bar(
        centres[filled],
        (confidence - accuracy).abs(),
        width,
        bottom=torch.minimum(accuracy, confidence),
        color="none",
        edgecolor="#D55E00",
        hatch="////",
        linewidth=0.5,
        label="gap to confidence",
    )
    axes.plot([0, 1], [0, 1], color="black", linewidth=1, linestyle="--", label="calibrated")
    axes.set(xlim=(0, 1), ylim=(0, 1), xticks=[0, 0.25, 0.5, 0.75, 1], xticklabels=["0", ".25", ".5", ".75", "1"])
    axes.set_title(f"{name}\npooled ECE {100 * bins.ece():.1f} %", fontsize=10)


def _histogram(axes: "Axes", bins: Bins) -> None:
    centres, width = _edges(bins)
    axes.bar(centres, bins.weight, width, color="#636363", edgecolor="white", linewidth=0.5)


def confidence_by_lambda_figure(methods: Mapping[str, tuple[Tensor, Tensor]], raw: Mapping[str, float], *, num_bins: int = 10) -> "Figure":
    """Mean confidence of mixed samples against lambda, a line for each method, and of raw samples at the right.

    `methods` gives (confidences, lambdas) of mixed samples, `raw` the mean confidence of raw ones.
    """
    figure = _figure(6.2, 4.2)
    axes = figure.subplots()
    axes.plot([0.5, 1], [0.5, 1], color="0.6", linewidth=1, label="confidence = λ (what a mixed label asks)")
    for (name, (confidence, lam)), (colour, line, marker) in zip(methods.items(), _STYLES, strict=False):
        centres, means = confidence_by_lambda(confidence, lam, num_bins=num_bins)
        axes.plot(centres, means, color=colour, linestyle=line, marker=marker, markersize=5, linewidth=1.5, label=name)
        axes.plot([1.02], [raw[name]], color=colour, marker=marker, markersize=9, markerfacecolor="none", linestyle="none", clip_on=False)
    axes.set(xlim=(0.49, 1.04), xlabel="λ, weight of the larger part of the mix", ylabel="mean confidence")
    axes.set_xticks([0.5, 0.6, 0.7, 0.8, 0.9, 1.02], ["0.5", "0.6", "0.7", "0.8", "0.9", "raw"])
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return figure
