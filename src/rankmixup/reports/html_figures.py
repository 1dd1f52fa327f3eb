"""The figures of the HTML report, each with a caption that says how to read it."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rankmixup.evaluation import diagrams
from rankmixup.reports import figures
from rankmixup.reports.entry import ReportEntry

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class FigureCard(NamedTuple):
    """A figure ready to be put on the page."""

    title: str
    drawings: tuple[str, ...]
    """SVG, side by side where there is room."""
    caption: str


def entry_figures(entry: ReportEntry, prefix: str) -> Iterator[FigureCard]:
    """Reliability, confidence of right and wrong, temperature, and scores of unknown sets of one model."""
    evaluation, test, bins = entry.evaluation, entry.scores, entry.evaluation.num_bins
    stages = {"test set": test}
    if evaluation.calibrated is not None:
        stages = {"before calibration": test, "after calibration": evaluation.calibrated}
    if positive := evaluation.positive:
        found = {f"{positive.title}, {name}": diagrams.reliability([each], bins, positive=positive.index) for name, each in stages.items()}
        yield _card(
            f"Reliability of {positive.title}",
            f"{prefix}-positive",
            f"Frequency of {positive.title} against its probability. On the dashed line it is as frequent as the model says; below, less "
            "frequent. Inside the grey boxes a calibrated model would lie 95 % of the time.",
            *(figures.reliability_figure({name: each}) for name, each in found.items()),
        )
    yield _card(
        "Reliability",
        f"{prefix}-reliability",
        "Accuracy against confidence. On the dashed line a model is right as often as it says; below it is overconfident. "
        "Inside the grey boxes a calibrated model would lie 95 % of the time.",
        *(figures.reliability_figure({name: diagrams.reliability([scores], bins)}) for name, scores in stages.items()),
    )
    yield _card(
        "Confidence of right and wrong predictions",
        f"{prefix}-histogram",
        "The further apart the two, the better confidence separates right from wrong; calibrated, both vertical lines coincide.",
        *(figures.confidence_histogram_figure({name: diagrams.confidence_histogram([scores])}) for name, scores in stages.items()),
    )
    fitted = evaluation.calibration.parameters.get("temperature") if evaluation.calibration else None
    temperature = fitted if isinstance(fitted, float) else None
    curve = diagrams.temperature_curve(test.logits, test.labels, fitted=temperature, num_bins=bins)
    caption = "NLL and ECE of the test set if its logits are divided by T. A temperature is never chosen here, but on held-out data."
    yield _card("Temperature", f"{prefix}-temperature", caption, figures.temperature_figure({"test set": curve}))
    if entry.dials:
        caption = (
            "Fields of the method that feedback from validation samples has set, by epoch; at the lower end of its range a dial rests."
        )
        yield _card("Dials", f"{prefix}-dials", caption, figures.dial_figure(entry.dials))
    if evaluation.ood_scores:
        kinds = {found.score for found in evaluation.ood.values()}
        densities = diagrams.score_densities(test, evaluation.ood_scores, kinds.pop() if len(kinds) == 1 else "entropy")
        caption = "The larger the score, the less a sample is like the training data. The less the sets overlap, the better the detection."
        yield _card("Scores of unknown samples", f"{prefix}-ood", caption, figures.ood_figure(densities))


def shared_figures(entries: Sequence[ReportEntry]) -> Iterator[FigureCard]:
    """What is best seen for all models in one figure."""
    runs = {entry.name: [entry.scores] for entry in entries}
    calibrated = {f"{entry.name}, calibrated": [scores] for entry in entries if (scores := entry.evaluation.calibrated)}
    bins = {name: diagrams.reliability(scores, entries[0].evaluation.num_bins) for name, scores in (runs | calibrated).items()}
    caption = "OE and UE: how far confidence exceeds accuracy, and how far it falls short, weighted by confidence."
    yield _card("Over- and underconfidence", "over-under", caption, figures.over_under_figure(bins))
    caption = "Errors among the most confident predictions. The lower the curve, the better one can refuse to answer when unsure."
    risks = {name: diagrams.risk_coverage_curve(scores) for name, scores in runs.items()}
    yield _card("Risk and coverage", "risk", caption, figures.risk_coverage_figure(risks))
    if curves := {
        each.name: diagrams.lambda_curve([(each.mixed.logits, each.mixed.lam, each.scores.logits)]) for each in entries if each.mixed
    }:
        caption = "RankMixup's hypothesis holds where confidence rises with λ and unmixed samples (open markers) come out on top."
        yield _card("Confidence against λ", "lambda", caption, figures.confidence_by_lambda_figure(curves))


def _card(title: str, prefix: str, caption: str, *drawn: "Figure") -> FigureCard:
    words = f"{title}. {caption}"
    drawings = (figures.inline_svg(figure, prefix=f"{prefix}-{number}", description=words) for number, figure in enumerate(drawn))
    return FigureCard(title, tuple(drawings), caption)
