"""Scores of samples that the network was not trained for, beside those that it was."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from torch import Tensor

from rankmixup.errors import require
from rankmixup.reports.figures.style import GREY, STYLES, label, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ood_figure"]


def ood_figure(
    in_distribution: Float[Tensor, " N"], others: Mapping[str, Float[Tensor, " M"]], *, kind: str = "entropy", num_bins: int = 40
) -> "Figure":
    """Densities of out-of-distribution scores (the larger, the stranger): of the test set, filled, and of each other set, a line."""
    sets = {"test set": in_distribution, **others}
    for name, scores in sets.items():
        require(len(scores) > 0 and bool(scores.isfinite().all()), f"scores of {name} must be finite and at least one, got {len(scores)}")
    values = {name: each.detach().cpu().double().numpy() for name, each in sets.items()}
    low, high = min(each.min() for each in values.values()), max(each.max() for each in values.values())
    edges = np.linspace(low, high if high > low else low + 1, num_bins + 1)
    figure = new_figure(4.8, 3.2)
    axes = figure.subplots()
    for position, (name, drawn) in enumerate(values.items()):
        size = f"({len(drawn):,})"
        density = np.histogram(drawn, edges)[0] / (len(drawn) * (edges[1] - edges[0]))
        if position == 0:
            axes.stairs(density, edges, fill=True, color=GREY, alpha=0.5, label=f"{name} {size}")
        else:
            colour, line, _ = STYLES[position % len(STYLES)]
            axes.stairs(density, edges, color=colour, linestyle=line, linewidth=1.5, label=f"{label(name)} {size}")
    # Most scores of a confident network lie at the left end; on a linear axis nothing else would show.
    axes.set_yscale("symlog", linthresh=0.1)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set(xlabel=f"{label(kind)} score", ylabel="density")
    axes.legend(fontsize=8, frameon=False)
    return figure
