"""RankMixup: be more confident on raw samples than on mixed ones, and the more so the larger lambda."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from rankmixup import ops
from rankmixup.config import added_field
from rankmixup.errors import require, require_choice, require_number, require_whole
from rankmixup.methods.base import Method, register
from rankmixup.methods.cross_entropy import cross_entropy_loss
from rankmixup.methods.dials import Auto, Dial
from rankmixup.mixers import Mixed, Mixer, Mixup
from rankmixup.ops import Logits, Loss, PlainArray, Reduction
from rankmixup.types import Batch, Context, StepOutput

Space = Literal["logit", "probability", "log-odds"]
Gradient = Literal["both", "mixed"]
Masking = Literal["skip", "release", "keep"]
Ratio = Literal["symmetric", "paper"]
Mixes: TypeAlias = Float[Tensor, "M B K"] | PlainArray
PerMix: TypeAlias = Float[Tensor, "M B"] | PlainArray


def mixup_ranking_loss(
    logits: Logits,
    mixed_logits: Logits | Mixes,
    *,
    margin: float = 2.0,
    space: Space = "logit",
    gradient: Gradient = "both",
    same_class: Bool[Tensor, " B"] | Bool[Tensor, "M B"] | PlainArray | None = None,
    masking: Masking = "skip",
    reduction: Reduction = "mean",
) -> Loss:
    """Mixup ranking loss, Eq. (10): a hinge that asks a raw sample to beat its own mix by `margin`. The ranking term alone.

    Args:
        logits: Of the raw samples, `[B, K]`.
        mixed_logits: Of one mix of each sample, `[B, K]`, or of M of them, `[M, B, K]`, over which a sample's loss is the mean.
        margin: By how much a raw sample must beat its mix; only with `space="log-odds"` may it be negative.
        space: What is compared: the largest logit, the largest probability, or its log-odds.
        gradient: Whether the loss raises the raw sample's confidence and lowers the mix's, or does the second alone.
        same_class: Where the partner has the sample's own class, `[B]` or `[M, B]`.
        masking: What becomes of those mixes, see below.
        reduction: "mean", "sum", or "none" for one loss per sample.

    **Deviation:** `space="logit"` compares largest logits, as the release does; `"probability"` is Eq. (10) to the letter,
    where a margin of 1 or more can never be met. `masking="skip"` sets the hinge to 0 where `same_class` (still divided
    by B); `"release"` multiplies the mean hinge by the share of other-class pairs, which is what the release's broadcast
    of a mask `[N]` against a hinge `[N, 1]` amounts to; `"keep"` is the paper, which says nothing of it. `space="log-odds"` and
    `gradient="mixed"` are ours: adding a constant to all logits then changes nothing, and a larger margin only ever asks for less
    confidence.

    >>> raw, mixed = torch.tensor([[3.0, 0.0], [1.0, 0.0]]), torch.tensor([[0.5, 0.0], [0.0, 2.0]])
    >>> mixup_ranking_loss(raw, mixed, margin=2.0, reduction="none")  # 0.5 - 3 + 2 < 0, and 2 - 1 + 2
    tensor([0., 3.])
    """
    require_choice("space", space, get_args(Space))
    require_choice("gradient", gradient, get_args(Gradient))
    require_number("margin", margin, least=_least_margin(space))
    require_choice("masking", masking, ("skip", "release", "keep"))
    mixed_logits = ops.check_floats("mixed_logits", mixed_logits)
    one_mix = mixed_logits.ndim == 2
    logits, mixed_logits = check_mixes(logits, mixed_logits.unsqueeze(0) if one_mix else mixed_logits)
    hinge = _hinges(logits.detach() if gradient == "mixed" else logits, mixed_logits, margin, space)
    if same_class is not None:
        same_class = ops.check_tensor("same_class", same_class, logits)
        require(same_class.dtype == torch.bool, f"same_class must hold true or false, got {same_class.dtype}")
        same_class = same_class.unsqueeze(0) if one_mix else same_class
        require(same_class.shape == hinge.shape, f"same_class must have shape {list(hinge.shape)}, got {list(same_class.shape)}")
        other_class = torch.ones_like(hinge) if masking == "keep" else (~same_class).to(hinge.dtype)
        hinge = hinge * (other_class.mean(dim=1, keepdim=True) if masking == "release" else other_class)
    return ops.reduce(hinge.mean(dim=0), reduction)


def _hinges(logits: Float[Tensor, "B K"], mixed_logits: Float[Tensor, "M B K"], margin: float, space: Space) -> Float[Tensor, "M B"]:
    score = {"probability": ops.confidence, "logit": ops.max_logit, "log-odds": ops.log_odds}[space]
    return torch.relu(score(ops.upcast(mixed_logits)) - score(ops.upcast(logits)) + margin)


def _least_margin(space: Space) -> float:
    return -math.inf if space == "log-odds" else 0


def mndcg_loss(
    logits: Logits, mixed_logits: Mixes, relevance: PerMix, *, ratio: Ratio = "symmetric", reduction: Reduction = "mean"
) -> Loss:
    """M-NDCG loss, Eqs. (13) and (14). The ranking term alone.

    The raw sample comes first, then its mixes in descending order of `relevance`. DCG sums their confidences, IDCG 1 and the
    relevances, both discounted by log2(position + 1).

    Args:
        logits: Of the raw samples, `[B, K]`.
        mixed_logits: Of M mixes of each sample, `[M, B, K]`.
        relevance: Ground truth of each mix in 0..1, `[M, B]`, such as lambda. Values are checked on the CPU only.
        ratio: How DCG and IDCG are compared, see below.
        reduction: "mean", "sum", or "none" for one loss per sample.

    **Deviation:** `ratio="symmetric"` is 1 - min(r, 1/r) with r = DCG/IDCG, as released; `"paper"` is 1 - r, which turns
    negative for a confident network and then rewards more confidence without end. Either way it matches two discounted
    sums rather than orders: a wrong order with the right sum costs nothing.

    >>> raw, mixed = torch.tensor([[100.0, 0.0]]), torch.zeros(1, 1, 2)  # confidences 1 and 1/2
    >>> round(mndcg_loss(raw, mixed, torch.tensor([[0.5]])).item(), 4)
    0.0
    >>> round(mndcg_loss(raw, mixed, torch.tensor([[1.0]])).item(), 4)  # 1 - (1 + 0.5 / log2 3) / (1 + 1 / log2 3)
    0.1934
    """
    require_choice("ratio", ratio, ("symmetric", "paper"))
    logits, mixed_logits = check_mixes(logits, mixed_logits)
    relevance = check_relevance(relevance, mixed_logits)
    raw, mixed = ops.confidence(logits), ops.confidence(mixed_logits)  # [B] and [M, B]
    # Stable, so that equal relevances (one lambda drawn twice, two same-class partners) keep the order they were drawn in.
    order = relevance.argsort(dim=0, descending=True, stable=True)
    positions = torch.arange(2, len(mixed) + 2, device=mixed.device, dtype=mixed.dtype)
    discount = 1 / torch.log2(positions + 1).unsqueeze(1)  # [M, 1]; the raw sample's, 1 / log2(2), is 1
    dcg = raw + (mixed.gather(0, order) * discount).sum(dim=0)
    ideal = 1 + (relevance.gather(0, order) * discount).sum(dim=0)
    value = dcg / ideal if ratio == "paper" else torch.where(dcg < ideal, dcg / ideal, ideal / dcg)
    return ops.reduce(1 - value, reduction)


def check_mixes(logits: Logits, mixed_logits: Mixes) -> tuple[Tensor, Tensor]:
    """Both as tensors, never in half precision; refuses what does not fit together."""
    logits = ops.check_logits(ops.check_floats("logits", logits))
    mixed_logits = ops.check_floats("mixed_logits", mixed_logits, logits)
    rule, found = "mixed_logits must hold M >= 1 mixes of each row of logits, [M, B, K] against [B, K]", list(mixed_logits.shape)
    fits = mixed_logits.ndim == 3 and mixed_logits.shape[1:] == logits.shape and mixed_logits.numel() > 0
    require(fits, f"{rule}, got {found} and {list(logits.shape)}")
    return ops.upcast(logits), ops.upcast(mixed_logits)


def check_relevance(relevance: PerMix, mixed_logits: Float[Tensor, "M B K"]) -> Float[Tensor, "M B"]:
    """Relevance of each mix, in the precision of its logits."""
    found = ops.check_unit("relevance", relevance, mixed_logits)
    shape = mixed_logits.shape[:2]
    require(found.shape == shape, f"relevance must have shape {list(shape)}, got {list(found.shape)}")
    return found.to(mixed_logits.dtype)


@dataclass(frozen=True)
class RankMixup(Method):
    """Cross-entropy on raw samples plus a weighted ranking term on their mixes; mixed samples get no label."""

    orders_mixes = True
    nonnegative: ClassVar[tuple[str, ...]] = ("weight",)

    weight: float = 0.1
    """Weight w of the ranking term (the paper's, for all data sets)."""
    mixer: Mixer = Mixup(alpha=2.0)
    """How samples are mixed; the paper's alpha is 2 for CIFAR-10, 1 for Tiny-ImageNet, and 1 with CutMix and manifold mixup."""
    num_mixes: int = 1
    """Mixes of each sample (Q - 1 in the paper)."""

    def check(self) -> None:
        super().check()
        require_whole("num_mixes", self.num_mixes, least=1)

    @abstractmethod
    def ranking(self, mixed: Mixed, target: Int[Tensor, " B"]) -> Float[Tensor, ""]:
        """The ranking term."""

    def __call__(self, model: nn.Module, batch: Batch, ctx: Context) -> StepOutput:
        mixed = self.mixer(model, batch.x, ctx.rng, num_mixes=self.num_mixes)
        assert mixed.raw is not None  # asked for by the call above
        ce = cross_entropy_loss(mixed.raw, batch.y)
        ranking = self.ranking(mixed, batch.y)
        return StepOutput(ce + self.weight * ranking, mixed.raw, {"ce": ce.detach(), "ranking": ranking.detach()})

    @property
    def forwarded(self) -> int:
        return self.mixer.forwarded(self.num_mixes, raw=True)


@register("rankmixup-mrl", "mrl")
@dataclass(frozen=True)
class RankMixupMRL(RankMixup):
    """Cross-entropy on raw samples plus the mixup ranking loss, Eq. (10).

    Defaults are the paper's for CIFAR-10: one mix, margin 2, weight 0.1, alpha 2.
    """

    margin: float | Auto = 2.0
    """Margin m between the confidences of a raw and a mixed sample (in logits unless `space` says otherwise); auto: set by feedback."""
    space: Space = "logit"
    """Confidence as the largest logit (the release), the largest probability (the paper), or its log-odds (ours)."""
    masking: Masking = "skip"
    """What becomes of mixes with a partner of the same class."""
    gradient: Gradient = added_field("both")
    """Whether raw samples are made more confident too, or mixes less confident alone (ours)."""

    @property
    def dials(self) -> Mapping[str, Dial]:
        return {"margin": Dial(-20.0, 20.0, start=0.0, follows_lr=True) if self.space == "log-odds" else Dial(0.0, 10.0, start=0.0)}

    def check(self) -> None:
        super().check()
        if self.margin != "auto":
            require_number("margin", self.margin, least=_least_margin(self.space))

    def hinges(self, logits: Float[Tensor, "B K"], mixed_logits: Float[Tensor, "M B K"]) -> Float[Tensor, "M B"] | None:
        assert self.margin != "auto"  # set before the first step
        return _hinges(logits, mixed_logits, self.margin, self.space)

    def ranking(self, mixed: Mixed, target: Int[Tensor, " B"]) -> Float[Tensor, ""]:
        assert mixed.raw is not None
        assert self.margin != "auto"
        return mixup_ranking_loss(
            mixed.raw,
            mixed.logits,
            margin=self.margin,
            space=self.space,
            gradient=self.gradient,
            same_class=mixed.same_class(target),
            masking=self.masking,
        )


@register("rankmixup-mndcg", "mndcg", "m-ndcg")
@dataclass(frozen=True)
class RankMixupMNDCG(RankMixup):
    """Cross-entropy on raw samples plus the M-NDCG loss over several mixes, Eqs. (13) and (14).

    Defaults are the paper's for CIFAR-10: three mixes (Q = 4), weight 0.1, alpha 2.
    """

    num_mixes: int = 3
    """Mixes of each sample (Q - 1 in the paper, which has Q = 4)."""
    ratio: Ratio = "symmetric"
    """1 - min(r, 1/r), as released, or 1 - r, Eq. (14)."""
    relevance: Literal["label", "lambda"] = "label"
    """Ground truth of a mix: the largest entry of its mixed label, as released, or lambda itself."""

    def ranking(self, mixed: Mixed, target: Int[Tensor, " B"]) -> Float[Tensor, ""]:
        assert mixed.raw is not None
        relevance = mixed.relevance(target) if self.relevance == "label" else mixed.lam
        return mndcg_loss(mixed.raw, mixed.logits, relevance, ratio=self.ratio)
