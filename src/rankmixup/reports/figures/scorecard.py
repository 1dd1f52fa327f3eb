"""Experiments as figures: rows side by side, settings as lines, and the densities that lambda is drawn from."""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rankmixup.evaluation.registry import metric_named
from rankmixup.paper.scorecard import Score, Scorecard
from rankmixup.paper.tables import ALPHAS, beta_density
from rankmixup.paper.verdict import SeedEstimate
from rankmixup.reports.figures.curves import confidence_by_lambda_figure
from rankmixup.reports.figures.style import ACCENT, BLUE, GREY, STYLES, labels, new_axes, new_figure, series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SETTING = re.compile(r".*/[^/=]+=[\d.]+")
_NAMES = {"margin": "margin m", "q": "samples Q", "alpha": "alpha"}
_DOT: dict[str, Any] = {"markersize": 5, "capsize": 2, "linewidth": 1.2, "linestyle": "none"}
_BEFORE = {"color": BLUE, "marker": "o", "label": "as trained"}
_AFTER = {"color": ACCENT, "marker": "s", "markerfacecolor": "none", "label": "after the temperature by ECE"}


def scorecard_figures(card: Scorecard) -> Iterator[tuple[str, str, str, "Figure"]]:
    """Experiment, name of the file, caption and figure, of everything that has been run."""
    if card.confidence_by_lambda:
        caption = "Mean confidence of mixed test samples by the weight λ of their larger part, and of raw ones (at the right)."
        yield "table1", "confidence-by-lambda", caption, confidence_by_lambda_figure(card.confidence_by_lambda)
    for key in card.titles:
        if key == "figure3":
            yield key, key, "Density of Beta(alpha, alpha), from which λ is drawn.", density_figure()
        ran = [score for score in card.of(key) if score.ours]
        for column in dict.fromkeys(score.column for score in ran):
            scores = [score for score in ran if score.column == column]
            name = f"{key}-{column.replace('/', '-')}"
            draw = sweep_figure if all(_SETTING.fullmatch(score.row) for score in scores) else rows_figure
            yield key, name, f"{card.titles[key]}: mean and 95 % interval over seeds and test samples.", draw(scores)


def rows_figure(scores: Sequence[Score]) -> "Figure":
    """A dot with its interval for each row, beside it the one after temperature scaling; a panel for each metric."""
    metrics = list(dict.fromkeys(score.metric for score in scores))
    rows = list(dict.fromkeys(score.row_label for score in scores))
    figure = new_figure(1.6 + 2.6 * len(metrics), 1.0 + 0.32 * len(rows))
    panels = figure.subplots(1, len(metrics), squeeze=False, sharey=True)[0]
    for panel, metric in zip(panels, metrics, strict=True):
        for score in (each for each in scores if each.metric == metric):
            position = rows.index(score.row_label)
            for estimate, height, drawn in ((score.ours, position - 0.12, _BEFORE), (score.after.get("ece-grid"), position + 0.18, _AFTER)):
                if estimate:
                    panel.errorbar(100 * estimate.value, height, xerr=_margins(estimate), **_DOT, **drawn)
            if score.ours and score.ours.floor is not None:
                chance = {"marker": "|", "markersize": 9, "linestyle": "none", "label": "noise floor"}
                panel.plot([100 * score.ours.floor], [position - 0.12], color=GREY, **chance)
        panel.set(xlabel=f"{metric_named(metric).title}, %")
        panel.grid(axis="x", alpha=0.3)
    panels[0].set_yticks(range(len(rows)), labels(rows), fontsize=8)
    panels[0].set_ylim(len(rows) - 0.5, -0.5)
    # Each name once, whatever panels it is in.
    found = {name: handle for panel in panels for handle, name in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(found.values(), found, loc="outside upper center", ncols=len(found), fontsize=8, frameon=False)
    return figure


def _margins(estimate: SeedEstimate) -> list[list[float]]:
    ends = [estimate.value if end is None else end for end in (estimate.low, estimate.high)]
    return [[100 * (estimate.value - ends[0])], [100 * (ends[1] - estimate.value)]]


def sweep_figure(scores: Sequence[Score]) -> "Figure":
    """Each metric against the setting, a line for each method or other setting."""
    metrics = list(dict.fromkeys(score.metric for score in scores))
    lines: dict[str, list[tuple[float, Score]]] = {}
    for score in scores:
        _, _, shown = score.row.rpartition("/")
        setting, _, value = shown.partition("=")
        # The label ends in the setting, too.
        lines.setdefault(score.row_label.rpartition(", ")[0], []).append((float(value), score))
    figure = new_figure(0.6 + 3.4 * len(metrics), 3.2)
    panels = figure.subplots(1, len(metrics), squeeze=False)[0]
    ticks = sorted({value for points in lines.values() for value, _ in points})
    for panel, metric in zip(panels, metrics, strict=True):
        for position, (points, drawn) in enumerate(series(lines)):
            chosen = [(ticks.index(value), score.ours) for value, score in points if score.metric == metric and score.ours]
            heights = [100 * estimate.value for _, estimate in chosen]
            margins = np.hstack([_margins(estimate) for _, estimate in chosen])
            # Lines that lie upon each other keep their own intervals in sight.
            places = [place + 0.04 * (position - (len(lines) - 1) / 2) for place, _ in chosen]
            panel.errorbar(places, heights, margins, capsize=2, linewidth=1.2, **drawn)
        panel.set_xticks(range(len(ticks)), [f"{tick:g}" for tick in ticks])
        panel.set(xlabel=_NAMES.get(setting, setting), ylabel=f"{metric_named(metric).title}, %")
        panel.grid(alpha=0.3)
    if len(lines) > 1:
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(lines), fontsize=8, frameon=False)
    return figure


def density_figure() -> "Figure":
    """Density of Beta(alpha, alpha) for each alpha of the paper's sweep."""
    figure, axes = new_axes(4.8, 3.2)
    for position, (alpha, drawn) in enumerate(series({f"alpha {alpha:g}": alpha for alpha in ALPHAS})):
        width = 1.2 if position < len(STYLES) else 2.5  # styles begin again
        axes.plot(*beta_density(alpha), linewidth=width, **drawn | {"marker": ""})
    axes.set(xlabel="λ", ylabel="density", ylim=(0, 4))
    figure.legend(loc="outside right center", fontsize=8, frameon=False)
    return figure
