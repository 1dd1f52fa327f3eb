"""Label smoothing: cross-entropy against a target that leaves a little to every class."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch.nn import functional as F

from rankmixup.errors import require_number
from rankmixup.methods.base import LossMethod, register
from rankmixup.methods.dials import Auto, Dial
from rankmixup.ops import Logits, Loss, Reduction, Target, check_batch, reduce


def label_smoothing_loss(logits: Logits, target: Target, *, smoothing: float = 0.05, reduction: Reduction = "mean") -> Loss:
    """Cross-entropy against smoothed labels: (1 - s) * (-log p_y) + s * mean_k(-log p_k), with s = `smoothing`.

    All K classes share the smoothed mass, the true one included.

    **Deviation:** 0.05 is the supplement's value; the release's configuration has 0.2.

    >>> import torch
    >>> logits = torch.tensor([[0.0, 1.0986123]])  # probabilities 1/4 and 3/4
    >>> loss = label_smoothing_loss(logits, torch.tensor([1]), smoothing=0.2)
    >>> round(loss.item(), 4)  # 0.9 * ln 4/3 + 0.1 * ln 4
    0.3975
    """
    require_number("smoothing", smoothing, least=0, most=1)
    logits, target = check_batch(logits, target)
    return reduce(F.cross_entropy(logits, target, label_smoothing=smoothing, reduction="none"), reduction)


@register("label-smoothing", "ls")
@dataclass(frozen=True)
class LabelSmoothing(LossMethod):
    """Cross-entropy against labels smoothed towards the uniform distribution (Müller et al., 2019)."""

    function = staticmethod(label_smoothing_loss)
    smoothing: float | Auto = 0.05
    """Share of the label that is spread evenly over all classes (alpha in the supplement); auto: set by feedback."""

    @property
    def dials(self) -> Mapping[str, Dial]:
        return {"smoothing": Dial(0.0, 0.5, start=0.0, proportional=1.0, integral=0.4)}

    def check(self) -> None:
        if self.smoothing != "auto":
            require_number("smoothing", self.smoothing, least=0, most=1)
