"""The figures of the HTML report, each with a caption that says how to read it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankmixup.evaluation import diagrams
from rankmixup.reports import figures
from rankmixup.reports.entry import ReportEntry

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class FigureCard:
    """A figure ready to be put on the page."""

    title: str
    drawings: tuple[str, ...]
    """SVG, side by side where there is room."""
    caption: str


def entry_figures(entry: ReportEntry, prefix: str, num_bins: int = 15) -> list[FigureCard]:
    """Reliability, confidence of right and wrong, temperature, and scores of unknown sets of one model."""
    stages = {"test set": entry.scores}
    if entry.calibrated is not None:
        stages = {"before calibration": entry.scores, "after calibration": entry.calibrated}
    calibration = entry.evaluation.calibration
    fitted = calibration.parameters.get("temperature") if calibration else None
    temperature = fitted if isinstance(fitted, float) else None
    drawn = [
        _card(
            "Reliability",
            f"{prefix}-reliability",
            "Accuracy against confidence. On the dashed line a model is right as often as it says; below it is overconfident. "
            "Inside the grey boxes a calibrated model would lie 95 % of the time.",
            *(figures.reliability_figure({name: diagrams.reliability([scores], num_bins)}) for name, scores in stages.items()),
        ),
        _card(
            "Confidence of right and wrong predictions",
            f"{prefix}-histogram",
            "The further apart the two, the better confidence separates right from wrong; calibrated, both vertical lines coincide.",
            *(figures.confidence_histogram_figure({name: diagrams.confidence_histogram([scores])}) for name, scores in stages.items()),
        ),
        _card(
            "Temperature",
            f"{prefix}-temperature",
            "NLL and ECE of the test set if its logits are divided by T. A temperature is never chosen here, but on held-out data.",
            figures.temperature_figure(
                {"test set": diagrams.temperature_curve(entry.scores.logits, entry.scores.labels, fitted=temperature, num_bins=num_bins)}
            ),
        ),
    ]
    if entry.ood:
        kinds = {found.score for found in entry.evaluation.ood.values()}
        densities = diagrams.score_densities(entry.scores, entry.ood, kinds.pop() if len(kinds) == 1 else "entropy")
        caption = "The larger the score, the less a sample is like the training data. The less the sets overlap, the better the detection."
        drawn.append(_card("Scores of unknown samples", f"{prefix}-ood", caption, figures.ood_figure(densities)))
    return drawn


def shared_figures(entries: Sequence[ReportEntry], num_bins: int = 15) -> list[FigureCard]:
    """What is best seen for all models in one figure."""
    runs = {entry.name: [entry.scores] for entry in entries}
    calibrated = {f"{entry.name}, calibrated": [entry.calibrated] for entry in entries if entry.calibrated is not None}
    bins = {name: diagrams.reliability(scores, num_bins) for name, scores in (runs | calibrated).items()}
    curves = {entry.name: diagrams.lambda_curve([(*entry.mixed, entry.scores.logits)]) for entry in entries if entry.mixed is not None}
    drawn = [
        _card(
            "Over- and underconfidence",
            "over-under",
            "OE and UE: how far confidence exceeds accuracy, and how far it falls short, weighted by confidence.",
            figures.over_under_figure(bins),
        ),
        _card(
            "Risk and coverage",
            "risk",
            "Errors among the most confident predictions. The lower the curve, the better one can refuse to answer when unsure.",
            figures.risk_coverage_figure({name: diagrams.risk_coverage_curve(scores) for name, scores in runs.items()}),
        ),
    ]
    if curves:
        caption = "RankMixup's hypothesis holds where confidence rises with λ and unmixed samples (open markers) come out on top."
        drawn.append(_card("Confidence against λ", "lambda", caption, figures.confidence_by_lambda_figure(curves)))
    return drawn


def _card(title: str, prefix: str, caption: str, *drawn: "Figure") -> FigureCard:
    drawings = (
        figures.inline_svg(figure, prefix=f"{prefix}-{number}", description=f"{title}. {caption}") for number, figure in enumerate(drawn)
    )
    return FigureCard(title, tuple(drawings), caption)
