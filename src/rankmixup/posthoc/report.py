"""What a calibrator did when it was fitted."""

from dataclasses import asdict, dataclass
from typing import Any

_NOISE = 1e-9
"""Differences of NLL and ECE below this are rounding, not better or worse."""


@dataclass(frozen=True)
class FitReport:
    """What a calibrator did when it was fitted."""

    method: str
    objective: str
    parameters: dict[str, float | list[float]]
    converged: bool
    """False where the search ended on its boundary, ran out of steps, or had no optimum to find."""
    samples: int
    split: str
    """Name of the data it was fitted on, as the caller gave it."""
    before: dict[str, float]
    after: dict[str, float]
    """NLL and ECE on the data it was fitted on."""
    note: str = ""
    """Why it did not converge, where the boundary of the search is not the reason."""

    @property
    def verdict(self) -> str:
        """What the fit did, in words."""
        if not self.converged:
            return f"did not converge: {self.note or 'the best parameters lie on the boundary of the search'}"
        nll, ece = (self.after[key] - self.before[key] for key in ("nll", "ece"))
        if nll < -_NOISE:
            return "improves NLL on the fitted data" + (" but raises ECE" if ece > _NOISE else "")
        if ece < -_NOISE:
            return "lowers ECE on the fitted data" + (" but raises NLL" if nll > _NOISE else "")
        return "makes things worse" if nll > _NOISE or ece > _NOISE else "changes nothing"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return asdict(self) | {"verdict": self.verdict}
