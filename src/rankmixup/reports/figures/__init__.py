"""Figures: series differ by marker, line or hatching as well as by colour, so that a grey print says the same.

Each takes results of `rankmixup.evaluation.diagrams` by name and returns a `matplotlib.figure.Figure` for `save_figure` (PNG and SVG)
or `inline_svg` (for an HTML page).
"""

from rankmixup.reports.figures.curves import confidence_by_lambda_figure, dial_figure, ood_figure, risk_coverage_figure, temperature_figure
from rankmixup.reports.figures.inline import inline_svg
from rankmixup.reports.figures.reliability import confidence_histogram_figure, over_under_figure, reliability_figure
from rankmixup.reports.figures.shift import shift_figure
from rankmixup.reports.figures.style import save_figure

__all__ = [
    "confidence_by_lambda_figure",
    "confidence_histogram_figure",
    "dial_figure",
    "inline_svg",
    "ood_figure",
    "over_under_figure",
    "reliability_figure",
    "risk_coverage_figure",
    "save_figure",
    "shift_figure",
    "temperature_figure",
]
