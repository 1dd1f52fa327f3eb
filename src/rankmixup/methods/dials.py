"""Dials: fields of a method that feedback from validation samples sets, so that their confidence becomes what their accuracy is.

A method declares which of its fields can be dials (`Method.dials`); a field whose value is "auto" is one. After each validation the
controller looks at the gap, the mean confidence less the accuracy of validation samples, and moves the dial by two parts:

    integral += gain x integral share x gap,    position = integral + gain x proportional share x gap,    both kept within 0..1,

where the position is a place in the dial's range. Nothing here depends on the number of epochs.

The gain is 1, or, for a dial that follows the learning rate, inversely proportional to that. How far an epoch moves the confidence of a
network grows with the learning rate, and so does the noise of the gap from one epoch to the next. A gain that is right at a low rate would
make the dial swing at a high one.

Until the network fits its training samples, a dial rests at its lower end, where it has no effect, and the integral does not move: what is
taken off the confidence of a network that still learns is taken off its accuracy. It fits them once the mean cross-entropy of an epoch's
training samples is below `FITS` times that of guessing, log K. Where training is augmented that is late, and where a network memorises
a small set it is early, before its logits have grown so much that taking them back would be a shock.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rankmixup.ops import Logits, Target, check_batch, confidence

Auto = Literal["auto"]
"""The value of a field that is set by feedback."""
GAIN = 0.15
"""At the highest learning rate."""
MOST_GAIN = 15.0
"""At a hundredth of the highest learning rate and below."""
FITS = 0.6
"""Share of the cross-entropy of guessing below which a network fits its training samples."""
ENOUGH = 200
"""Validation samples that the gap is to be estimated from; of fewer its standard error can be above 3.5 points."""


@dataclass(frozen=True)
class Dial:
    """The range of a field and how feedback moves it. Raising the field must lower confidence, or raise it, throughout the range."""

    low: float
    high: float
    start: float
    """Where it begins once the network fits its training samples; until then it rests at `low`."""
    scale: Literal["linear", "log"] = "linear"
    """Whether equal steps of the position add to the field or multiply it."""
    lowers_confidence: bool = True
    """Whether raising the field lowers confidence."""
    proportional: float = 0.25
    """Share of the range that it moves for a gap of 1 at a gain of 1, as long as the gap lasts."""
    integral: float = 0.1
    """Share of the range that it moves in each validation for a gap of 1 at a gain of 1, for good."""
    follows_lr: bool = False
    """Whether the gain is inversely proportional to the learning rate."""

    def position(self, value: float) -> float:
        """Where a value lies in the range, 0 to 1."""
        low, high, value = (math.log(each) if self.scale == "log" else each for each in (self.low, self.high, value))
        return (value - low) / (high - low)

    def value(self, position: float) -> float:
        """The value at a position; `low` and `high` exactly at 0 and 1."""
        if position in (0.0, 1.0):
            return self.high if position else self.low
        if self.scale == "log":
            return self.low * (self.high / self.low) ** position
        return self.low + (self.high - self.low) * position


class Controller:
    """Sets dials by feedback.

    >>> controller = Controller({"margin": Dial(-20.0, 20.0, start=0.0)})
    >>> controller.values
    {'margin': -20.0}
    >>> controller.update(gap=0.1, fits=True)  # 40 x (0.1 + 0.25) x 0.1
    >>> round(controller.values["margin"], 6)
    1.4
    """

    def __init__(self, dials: Mapping[str, Dial]):
        self.dials, self.updates, self.acts, self._highest_lr = dict(dials), 0, False, 0.0
        self.acted, self.samples = False, 0
        """Whether a step was trained with a dial that acts, and the number of samples behind the last gap."""
        self.values = {name: dial.low for name, dial in self.dials.items()}
        self._integrals = {name: dial.position(dial.start) for name, dial in self.dials.items()}

    def update(self, gap: float, *, fits: bool, lr: float | None = None, samples: int = 0) -> None:
        """Move every dial after a validation with this mean confidence less accuracy, once the network fits its training samples.

        Without a learning rate the gain is 1.
        """
        self.updates, self.acts, self.samples = self.updates + 1, self.acts or fits, samples
        self._highest_lr = max(self._highest_lr, lr or 0.0)
        if not self.acts:
            return
        by_lr = 1.0 if lr is None else min(GAIN * self._highest_lr / lr, MOST_GAIN) if lr > 0 else MOST_GAIN
        for name, dial in self.dials.items():
            error = (by_lr if dial.follows_lr else 1.0) * (gap if dial.lowers_confidence else -gap)
            self._integrals[name] = _within_range(self._integrals[name] + dial.integral * error)
            self.values[name] = dial.value(_within_range(self._integrals[name] + dial.proportional * error))

    def troubles(self, kept: Mapping[str, float] | None = None) -> dict[str, str]:
        """What is wrong with the dials at the end of training and what to do, by kind; `kept` are the values of the epoch that is kept."""
        found: dict[str, str] = {}
        if not self.dials:
            return found
        if self.updates == 0:
            found["untuned"] = "never acted, because it was never tuned: call tune(val_logits, val_y), or validate, after each epoch"
        elif not self.acted:
            when = "only at the last" if self.acts else "at none"
            why = f"because the network fitted its training samples {when} of its {self.updates} tunings (cross-entropy below {FITS} log K)"
            advice = "train longer, tune it more often, give it a number, or calibrate afterwards, for instance with a temperature"
            found["idle"] = f"never acted in training, {why}: {advice}"
        elif kept is not None and all(kept[name] == dial.low for name, dial in self.dials.items()):
            found["kept"] = "had no effect in the epoch that is kept: calibrate afterwards, for instance with a temperature"
        for name, dial in self.dials.items():
            if self.acted and (value := self.values[name]) in (dial.low, dial.high):
                able = "raise" if (value == dial.low) == dial.lowers_confidence else "lower"
                found[name] = f"ended at its limit of {value:g}, where it can {able} confidence no further: fit a temperature afterwards"
        if 0 < self.samples < ENOUGH:
            error = f"of which the gap has a standard error of up to {50 / math.sqrt(self.samples):.0f} points"
            found["few"] = f"was tuned on {self.samples} samples, {error}: use at least {ENOUGH} validation samples"
        return found

    def state(self) -> Tensor:
        """Everything that changes, as one tensor."""
        pairs = [number for name in self.dials for number in (self.values[name], self._integrals[name])]
        return torch.tensor([self.updates, self.acts, self.acted, self.samples, self._highest_lr, *pairs], dtype=torch.float64)

    def restore(self, state: Tensor) -> None:
        """Go on from `state()`."""
        updates, acts, acted, samples, self._highest_lr, *pairs = state.tolist()
        self.updates, self.acts, self.acted, self.samples = int(updates), bool(acts), bool(acted), int(samples)
        self.values, self._integrals = (dict(zip(self.dials, pairs[first::2], strict=True)) for first in (0, 1))


def _within_range(position: float) -> float:
    return min(max(position, 0.0), 1.0)


def confidence_gap(logits: Logits, target: Target) -> float:
    """Mean confidence less accuracy; above 0 where a network is overconfident.

    >>> confidence_gap(torch.zeros(4, 2), torch.tensor([0, 0, 1, 0]))  # sure by half, right in three of four
    -0.25
    """
    logits, target = check_batch(logits, target)
    logits, target = logits.detach().cpu().double(), target.cpu()
    return (confidence(logits).mean() - (logits.argmax(dim=1) == target).double().mean()).item()
