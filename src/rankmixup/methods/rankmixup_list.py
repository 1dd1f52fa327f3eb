"""A list-wise ranking loss that ranks: zero exactly where confidences are in order. Ours; M-NDCG's sibling."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankmixup import ops
from rankmixup.errors import require_choice, require_number
from rankmixup.methods.base import register
from rankmixup.methods.dials import Auto, Dial
from rankmixup.methods.rankmixup import Gradient, Mixes, PerMix, RankMixup, check_mixes, check_relevance
from rankmixup.mixers import LogitMixup, Mixed, Mixer
from rankmixup.ops import Logits, Loss, Reduction


def mixup_list_loss(
    logits: Logits,
    mixed_logits: Mixes,
    relevance: PerMix,
    *,
    margin: float = 1.0,
    gradient: Gradient = "mixed",
    reduction: Reduction = "mean",
) -> Loss:
    """List-wise ranking loss on log-odds, the mean over pairs of max(0, s_b - s_a + margin * (r_a - r_b)) with r_a > r_b. Ours.

    s are the log-odds of a sample and its M mixes, r their relevance, 1 for the raw sample. It is 0 exactly where they are ordered by it,
    each pair with a gap of at least the margin times the difference of their relevance; pairs of equal relevance are not compared. M-NDCG
    compares two sums and can be 0 for a list in the wrong order.

    Args:
        logits: Of the raw samples, `[B, K]`.
        mixed_logits: Of M mixes of each sample, `[M, B, K]`.
        relevance: Ground truth of each mix in 0..1, `[M, B]`, such as lambda. Values are checked on the CPU only.
        margin: Gap in log-odds for a difference of 1 in relevance; negative ones let the order be wrong by so much.
        gradient: Whether the more relevant of a pair is made more confident too, or the less relevant less confident alone.
        reduction: "mean", "sum", or "none" for one loss per sample.

    >>> raw, mixed = torch.tensor([[3.0, 0.0]]), torch.tensor([[[1.0, 0.0]], [[2.0, 0.0]]])  # log-odds 3, 1 and 2
    >>> mixup_list_loss(raw, mixed, torch.tensor([[0.6], [0.9]]), margin=2.0).item()  # gaps 2, 1 and 1 where 0.8, 0.2 and 0.6 are asked for
    0.0
    >>> round(mixup_list_loss(raw, mixed, torch.tensor([[0.9], [0.6]]), margin=2.0).item(), 4)  # 1.6 / 3
    0.5333
    """
    require_number("margin", margin)
    require_choice("gradient", gradient, get_args(Gradient))
    logits, mixed_logits = check_mixes(logits, mixed_logits)
    mixed_relevance = check_relevance(relevance, mixed_logits)
    score = ops.log_odds(torch.cat([logits.unsqueeze(0), mixed_logits]))  # [Q, B]
    relevance = torch.cat([torch.ones_like(mixed_relevance[:1]), mixed_relevance])
    more = score.detach() if gradient == "mixed" else score
    ahead = relevance.unsqueeze(1) - relevance.unsqueeze(0)  # [Q, Q, B], of the more relevant over the less
    hinge = torch.relu(score.unsqueeze(0) - more.unsqueeze(1) + margin * ahead) * (ahead > 0)
    pairs = len(score) * (len(score) - 1) / 2
    return ops.reduce(hinge.sum(dim=(0, 1)) / pairs, reduction)


@register("rankmixup-list")
@dataclass(frozen=True)
class RankMixupList(RankMixup):
    """A list-wise ranking loss on the log-odds of a sample and its mixes, with a margin set by feedback. Ours, not the paper's."""

    orders_mixes = False  # of logits, which says nothing about mixed inputs

    weight: float = 1.0
    """Weight w of the ranking term."""
    mixer: Mixer = LogitMixup(alpha=2.0)
    """How samples are mixed."""
    num_mixes: int = 3
    """Mixes of each sample."""
    margin: float | Auto = "auto"
    """Gap in log-odds for a difference of 1 in relevance; auto: set by feedback."""
    gradient: Gradient = "mixed"
    """Whether the more relevant of a pair is made more confident too."""

    @property
    def dials(self) -> Mapping[str, Dial]:
        return {"margin": Dial(-40.0, 40.0, start=0.0, follows_lr=True)}

    def ranking(self, mixed: Mixed, target: Int[Tensor, " B"]) -> Float[Tensor, ""]:
        assert mixed.raw is not None
        assert self.margin != "auto"  # set before the first step
        return mixup_list_loss(mixed.raw, mixed.logits, mixed.relevance(target), margin=self.margin, gradient=self.gradient)
