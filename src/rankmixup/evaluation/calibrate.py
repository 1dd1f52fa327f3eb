"""Calibrators fitted on held-out scores."""

from rankmixup.evaluation.scores import Scores
from rankmixup.posthoc import CALIBRATORS, Calibrator, TemperatureScaling


def fit_calibrator(
    held_out: Scores, name: str = "temperature", *, objective: str | None = None, num_bins: int = 15, fitted_on: str = ""
) -> Calibrator:
    """The calibrator `name`, fitted on held-out scores; `fitted_on` names them in its report."""
    return CALIBRATORS[name](objective, num_bins).fit(held_out.logits, held_out.labels, split=fitted_on)


def fit_temperatures(held_out: Scores) -> dict[str, TemperatureScaling]:
    """Temperature scaling fitted with each objective; a fit that did not converge says so in its report, without a warning."""
    logits, target = held_out.logits, held_out.labels
    return {objective: TemperatureScaling(objective).fit(logits, target, warn=False) for objective in TemperatureScaling.objectives}
