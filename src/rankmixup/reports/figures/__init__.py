"""Figures: told apart by marker, line or hatching as well as by colour, so that a grey print says the same.

Each takes what it draws by name, several runs under one name being pooled, and returns a `matplotlib.figure.Figure`
for `save_figure` (PNG and SVG) or `inline_svg` (for an HTML page).
"""

from rankmixup.reports.figures.errors import over_under_figure, temperature_figure
from rankmixup.reports.figures.inline import inline_svg
from rankmixup.reports.figures.ood import ood_figure
from rankmixup.reports.figures.ranking import confidence_by_lambda_figure
from rankmixup.reports.figures.reliability import reliability_figure
from rankmixup.reports.figures.selective import confidence_histogram_figure, risk_coverage_figure
from rankmixup.reports.figures.style import save_figure

__all__ = [
    "confidence_by_lambda_figure",
    "confidence_histogram_figure",
    "inline_svg",
    "ood_figure",
    "over_under_figure",
    "reliability_figure",
    "risk_coverage_figure",
    "save_figure",
    "temperature_figure",
]
