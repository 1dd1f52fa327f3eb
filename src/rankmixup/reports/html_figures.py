"""The figures of the HTML report, each with a caption that says how to read it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankmixup.evaluation import Scores
from rankmixup.metrics.ood import OODKind, ood_scores
from rankmixup.ops import confidence
from rankmixup.reports import figures
from rankmixup.reports.entry import ReportEntry

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FigureCard", "entry_figures", "shared_figures"]


@dataclass(frozen=True)
class FigureCard:
    """A figure ready to be put on the page."""

    title: str
    drawings: tuple[str, ...]
    """SVG, side by side where there is room."""
    caption: str


def _card(title: str, prefix: str, caption: str, *drawn: "Figure") -> FigureCard:
    drawings = (
        figures.inline_svg(figure, prefix=f"{prefix}-{number}", description=f"{title}. {caption}") for number, figure in enumerate(drawn)
    )
    return FigureCard(title, tuple(drawings), caption)


def _stages(entry: ReportEntry) -> list[dict[str, list[Scores]]]:
    """What is drawn before and after calibration, each by itself."""
    if entry.calibrated is None:
        return [{"test set": [entry.scores]}]
    return [{"before calibration": [entry.scores]}, {"after calibration": [entry.calibrated]}]


def entry_figures(entry: ReportEntry, prefix: str, num_bins: int = 15) -> list[FigureCard]:
    """Reliability, confidence of right and wrong, temperature, and scores of unknown sets of one model."""
    stages = _stages(entry)
    calibration = entry.evaluation.calibration
    fitted = calibration["parameters"].get("temperature") if calibration else None
    cards = [
        _card(
            "Reliability",
            f"{prefix}-reliability",
            "Accuracy against confidence. On the dashed line a model is right as often as it says; below it is overconfident. "
            "Inside the grey boxes a calibrated model would lie 95 % of the time.",
            *(figures.reliability_figure(stage, num_bins=num_bins) for stage in stages),
        ),
        _card(
            "Confidence of right and wrong predictions",
            f"{prefix}-histogram",
            "The further apart the two, the better confidence tells right from wrong; calibrated, both vertical lines coincide.",
            *map(figures.confidence_histogram_figure, stages),
        ),
        _card(
            "Temperature",
            f"{prefix}-temperature",
            "NLL and ECE of the test set if its logits are divided by T. A temperature is never chosen here, but on held-out data.",
            figures.temperature_figure({"test set": (entry.scores, fitted if isinstance(fitted, float) else None)}, num_bins=num_bins),
        ),
    ]
    return cards + ([_ood_card(entry, prefix)] if entry.ood else [])


def _ood_card(entry: ReportEntry, prefix: str) -> FigureCard:
    kinds = {found["score"] for found in entry.evaluation.ood.values()}
    kind: OODKind = kinds.pop() if len(kinds) == 1 else "entropy"
    known, *unknown = (ood_scores(scores.logits, kind) for scores in (entry.scores, *entry.ood.values()))
    return _card(
        "Scores of unknown samples",
        f"{prefix}-ood",
        "The larger the score, the stranger the sample is to the model. The less the sets overlap, the better they are told apart.",
        figures.ood_figure(known, dict(zip(entry.ood, unknown, strict=True)), kind=kind),
    )


def shared_figures(entries: Sequence[ReportEntry], num_bins: int = 15) -> list[FigureCard]:
    """What is best seen for all models in one figure."""
    runs = {entry.name: [entry.scores] for entry in entries}
    calibrated = {f"{entry.name}, calibrated": [entry.calibrated] for entry in entries if entry.calibrated is not None}
    cards = [
        _card(
            "Over- and underconfidence",
            "over-under",
            "OE and UE: how far confidence exceeds accuracy, and how far it falls short, weighted by confidence.",
            figures.over_under_figure(runs | calibrated, num_bins=num_bins),
        ),
        _card(
            "Risk and coverage",
            "risk",
            "Errors among the most confident predictions. The lower the curve, the better one can refuse to answer when unsure.",
            figures.risk_coverage_figure(runs),
        ),
    ]
    mixed = {entry.name: (confidence(entry.mixed[0]), entry.mixed[1]) for entry in entries if entry.mixed is not None}
    if mixed:
        raw = {entry.name: entry.scores.probs.amax(dim=1).mean().item() for entry in entries if entry.name in mixed}
        cards.append(
            _card(
                "Confidence against λ",
                "lambda",
                "RankMixup's hypothesis holds where confidence rises with λ and unmixed samples (open markers) come out on top.",
                figures.confidence_by_lambda_figure(mixed, raw),
            )
        )
    return cards
