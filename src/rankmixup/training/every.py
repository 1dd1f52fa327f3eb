"""How often a run is saved."""

import re
from dataclasses import dataclass

from rankmixup.errors import require

__all__ = ["Every"]

_FORM = re.compile(r"\s*(?P<number>\d+(\.\d*)?)\s*(?P<unit>steps?|min|minutes?)\s*")


@dataclass(frozen=True)
class Every:
    """A number of steps, or a time: whichever is given.

    >>> Every.parse("200steps"), Every.parse("5min")
    (Every(steps=200, seconds=None), Every(steps=None, seconds=300.0))
    """

    steps: int | None = None
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str) -> "Every":
        """From `Nsteps` or `Nmin`."""
        match = _FORM.fullmatch(text)
        found = cls() if match is None else cls._of(float(match["number"]), match["unit"])
        require(
            found != cls(), f"checkpoint_every must be a whole number of steps or a number of minutes, as in 200steps or 5min, got {text!r}"
        )
        return found

    @classmethod
    def _of(cls, number: float, unit: str) -> "Every":
        if unit.startswith("min"):
            return cls(seconds=60 * number)
        return cls(steps=int(number)) if number.is_integer() and number >= 1 else cls()

    def after_step(self, position: int) -> bool:
        """Whether the state after `position` steps is to be saved."""
        return self.steps is not None and position % self.steps == 0

    def after_time(self, seconds: float) -> bool:
        """Whether a state is to be saved, `seconds` after the last one was."""
        return self.seconds is not None and seconds >= self.seconds
