"""Which predictions to accept: those above a confidence at which accuracy is as high as asked for.

The confidence is chosen on calibration samples: of their most confident 5, 10, ..., 100 % the largest share is kept whose accuracy has an
exact 95 % interval (Clopper and Pearson) that is not below what was asked for. The accuracy of what is accepted is then lower than asked
for in 0 to 2 of 100 calibration sets where confidence tells right from wrong, and in up to 5 where it tells nothing and the accuracy of all
predictions is just below it. (The confidence from which the observed accuracy is as high as asked for is too low in about half of the
sets.) That is so for samples like those that it was chosen on; other samples check it.
"""

import math
import re
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rankmixup.errors import InvalidInput, one_line, require, shown
from rankmixup.evaluation.estimates import Estimate, wilson_interval
from rankmixup.evaluation.scores import Scores
from rankmixup.metrics.inputs import top_label
from rankmixup.posthoc import Calibrator

_SHARES = 20
_LEVEL = 0.025
_RULE = "accept_at must be an accuracy between 0 and 1, as in 0.95, 'accuracy=0.95' or 'accuracy=95%'"


@dataclass(frozen=True)
class Kept:
    """How many of `n` predictions are accepted, and how many of these are right."""

    n: int
    kept: int
    right: int

    @property
    def share(self) -> Estimate:
        """Share of the predictions that are accepted."""
        return Estimate(self.kept / self.n, *wilson_interval(self.kept / self.n, self.n))

    @property
    def accuracy(self) -> Estimate | None:
        """Share of the accepted predictions that are right; None if none is accepted."""
        return Estimate(self.right / self.kept, *wilson_interval(self.right / self.kept, self.kept)) if self.kept else None

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        accuracy = None if self.accuracy is None else self.accuracy.interval_dict()
        return {**asdict(self), "share": self.share.interval_dict(), "accuracy": accuracy}


@dataclass(frozen=True)
class Threshold:
    """The least confidence of a prediction that is accepted."""

    accuracy: float
    """What was asked for."""
    confidence: float | None
    """None where no confidence is shown to have that accuracy: then nothing is accepted."""
    chosen_on: str
    calibration: Kept
    """The samples that it was chosen on."""

    def __post_init__(self) -> None:
        require(0 < self.accuracy < 1, f"{_RULE}, got {self.accuracy}")
        found, seen = self.confidence, self.calibration
        require(found is None or 0 <= found <= 1, f"the confidence of a threshold must be between 0 and 1, got {found}")
        require(0 <= seen.right <= seen.kept <= seen.n > 0, f"calibration of a threshold must be right <= kept <= n, got {seen}")

    def accepts(self, probabilities: Float[Tensor, "N K"]) -> Bool[Tensor, " N"]:
        """Whether each prediction is accepted, by its calibrated probabilities."""
        return probabilities.amax(dim=1) >= (math.inf if self.confidence is None else self.confidence)

    def __str__(self) -> str:
        at, seen, where = f"accuracy {100 * self.accuracy:g} %", self.calibration, one_line(self.chosen_on)
        if self.confidence is None:
            least = math.ceil(math.log(_LEVEL) / math.log(self.accuracy))
            return f"{at}: nothing is accepted, {seen.n:,} samples ({where}) show it at no confidence; it takes {least:,} without an error"
        return f"{at}: confidence of at least {self.confidence:.4f}, chosen on {where} ({_words(seen)})"


@dataclass(frozen=True)
class Acceptance:
    """A threshold, and what it does on samples that it was not chosen on."""

    threshold: Threshold
    test: Kept

    @property
    def verdict(self) -> str:
        """Whether the test samples agree."""
        found = self.test.accuracy
        if found is None or found.low is None or found.high is None:
            return "nothing accepted"
        at = self.threshold.accuracy
        return "holds" if found.low >= at else "does not hold" if found.high < at else "within its interval"

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        chosen = self.threshold
        head = {"metric": "accuracy", "at": chosen.accuracy, "threshold": chosen.confidence, "chosen_on": chosen.chosen_on}
        return {**head, "calibration": chosen.calibration.to_dict(), "test": self.test.to_dict(), "verdict": self.verdict}

    def __str__(self) -> str:
        return f"{self.threshold}; test samples ({_words(self.test)}): {self.verdict}"


def _words(found: Kept) -> str:
    parts = {"share kept": found.share, "accuracy": found.accuracy}
    shown_parts = (
        f"{name} {100 * each.value:.2f} % [{100 * (each.low or 0):.2f}, {100 * (each.high or 0):.2f}]"
        for name, each in parts.items()
        if each
    )
    return f"{', '.join(shown_parts)}, of {found.n:,}"


def asked_accuracy(at: str | float) -> float:
    """The accuracy that is asked for.

    >>> asked_accuracy("accuracy=95%"), asked_accuracy(0.95)
    (0.95, 0.95)
    """
    match = re.fullmatch(r"\s*accuracy\s*=\s*(\d*\.?\d+)\s*(%?)\s*", at) if isinstance(at, str) else None
    number = float(f"{match[1]}e-2" if match[2] else match[1]) if match else at
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < 1:
        raise InvalidInput(f"{_RULE}, got {shown(at)}")
    return float(number)


def choose_threshold(held_out: Scores, at: str | float, *, calibrator: Calibrator | None = None, chosen_on: str = "") -> Threshold:
    """The threshold that keeps most of the held-out samples, whose scores the calibrator changes first."""
    from scipy.stats import binom

    accuracy = asked_accuracy(at)
    scores = held_out if calibrator is None else Scores(calibrator.transform(held_out.logits.double()), held_out.labels)
    confidence, correct = (each.cpu() for each in top_label(scores.scores, scores.labels, from_logits=scores.from_logits))
    confidence, order = confidence.sort(descending=True)
    right, size = correct[order].cumsum(0).long(), len(confidence)
    # As many as have at least some confidence, told apart to the precision of float32, in which exported files give them.
    counts = confidence.float().unique_consecutive(return_counts=True)[1].cumsum(0)
    tried = counts[torch.searchsorted(counts, (torch.arange(1, _SHARES + 1) * size / _SHARES).ceil().long())].unique()
    shows = torch.from_numpy(binom.sf(right[tried - 1].numpy() - 1, tried.numpy(), accuracy) <= _LEVEL)
    if not bool(shows.any()):
        return Threshold(accuracy, None, chosen_on, Kept(size, 0, 0))
    kept = int(tried[shows].max())
    # In the middle of a gap between confidences, where rounding changes nothing.
    middle = 0.0 if kept == size else float(confidence[kept - 1 : kept + 1].mean())
    return Threshold(accuracy, middle, chosen_on, Kept(size, kept, int(right[kept - 1])))


def check_threshold(threshold: Threshold, test: Scores) -> Acceptance:
    """What a threshold accepts of other samples."""
    _, correct = top_label(test.scores, test.labels, from_logits=test.from_logits)
    accepted = threshold.accepts(test.probs)
    return Acceptance(threshold, Kept(len(test), int(accepted.sum()), int(correct[accepted].sum())))
