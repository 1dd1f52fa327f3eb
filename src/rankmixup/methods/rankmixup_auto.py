"""RankMixup that calibrates by training alone, at the price of cross-entropy. Ours, not the paper's.

docs/explanations/method.md explains it.
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from rankmixup.methods.base import register
from rankmixup.methods.dials import Auto
from rankmixup.methods.rankmixup import Gradient, RankMixupMRL, Space
from rankmixup.mixers import LogitMixup, Mixer


@register("rankmixup-auto")
@dataclass(frozen=True)
class RankMixupAuto(RankMixupMRL):
    """The mixup ranking loss on log-odds, mixing logits behind one forward, with a margin set by feedback. Ours, not the paper's.

    It differs from the published loss in four things: confidence is the log-odds of the largest probability, only mixes are pushed down,
    logits are mixed instead of inputs, and the margin follows the gap between confidence and accuracy on validation samples.
    """

    orders_mixes = False  # of logits, which says nothing about mixed inputs

    weight: float = 1.0
    """Weight w of the ranking term."""
    mixer: Mixer = LogitMixup(alpha=2.0)
    """How samples are mixed."""
    margin: float | Auto = "auto"
    """Margin m between the log-odds of a raw and a mixed sample; auto: set by feedback."""
    space: Space = "log-odds"
    """What is compared: log-odds of the largest probability."""
    gradient: Gradient = "mixed"
    """Mixes are made less confident, raw samples are left alone."""

    def hinges(self, logits: Float[Tensor, "B K"], mixed_logits: Float[Tensor, "M B K"]) -> None:
        """Nothing is asked of mixed inputs."""
