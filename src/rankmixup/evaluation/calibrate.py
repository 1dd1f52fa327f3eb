"""Calibrators fitted on held-out scores."""

import warnings
from typing import Literal

from rankmixup.errors import require
from rankmixup.evaluation.scores import Scores
from rankmixup.posthoc import CALIBRATORS, Calibrator, TemperatureScaling

__all__ = ["Objective", "fit_calibrator", "fit_temperatures"]

Objective = Literal["nll", "ece-grid"]


def fit_calibrator(
    held_out: Scores, name: str = "temperature", *, objective: Objective = "nll", num_bins: int = 15, fitted_on: str = ""
) -> Calibrator:
    """The calibrator `name`, fitted on held-out scores; `fitted_on` names them in its report."""
    kind = CALIBRATORS[name]
    if issubclass(kind, TemperatureScaling):
        calibrator: Calibrator = kind(objective, num_bins=num_bins)
    else:
        require(objective == "nll", f"objective must be 'nll' for any calibrator but temperature, got {objective!r} for {name!r}")
        calibrator = kind()
        calibrator.num_bins = num_bins
    return calibrator.fit(held_out.logits, held_out.labels, split=fitted_on)


def fit_temperatures(held_out: Scores) -> dict[Objective, TemperatureScaling]:
    """Temperature scaling fitted with each objective; a fit that did not converge says so in its report, without a warning."""
    found: dict[Objective, TemperatureScaling] = {}
    for objective in ("nll", "ece-grid"):
        found[objective] = TemperatureScaling(objective)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[objective].fit(held_out.logits, held_out.labels)
    return found
