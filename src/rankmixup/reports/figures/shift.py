"""Box plots by severity, as in Ovadia et al. (2019)."""

from typing import TYPE_CHECKING

from rankmixup.evaluation.shift_results import Shift, Stage
from rankmixup.reports.figures.style import labels, new_figure, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PANELS: tuple[tuple[str, Stage, str], ...] = (
    ("accuracy", "before", "accuracy, %"),
    ("ece", "before", "ECE, %"),
    ("ece", "after", "ECE after T, %"),
)


def shift_figure(found: Shift) -> "Figure":
    """Accuracy and ECE by severity: for each method a box over corruptions, quartiles with whiskers to the lowest and highest."""
    figure = new_figure(2.2 + 0.9 * (len(found.severities) + 1) + 0.25 * len(found.methods), 7.0)
    panels = figure.subplots(len(_PANELS), 1, sharex=True)
    severities, names = [0, *found.severities], labels(found.methods)
    width = 0.8 / len(names)
    for panel, (metric, stage, title) in zip(panels, _PANELS, strict=True):
        for place, (name, method) in enumerate(zip(names, found.methods.values(), strict=True)):
            colour, line, _ = style(place)
            values = [[100 * getattr(cell, stage)[metric] for cell in method.cells if cell.severity == severity] for severity in severities]
            at = [number + (place - (len(names) - 1) / 2) * width for number in range(len(severities))]
            drawn = {"color": colour, "linestyle": line, "linewidth": 1.0}
            look = {"boxprops": drawn, "whiskerprops": drawn, "capprops": drawn | {"linestyle": "-"}}
            boxes = panel.boxplot(
                values, positions=at, widths=0.8 * width, whis=(0, 100), medianprops={"color": colour, "linewidth": 2.0}, **look
            )
            boxes["boxes"][0].set_label(name)
        panel.set_ylabel(title, fontsize=9)
        panel.grid(axis="y", alpha=0.3)
    panels[-1].set_xticks(range(len(severities)), ["test set", *map(str, found.severities)])
    panels[-1].set_xlabel("severity of the shift")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8, frameon=False)
    return figure
