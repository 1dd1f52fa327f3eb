"""UniMix: mixup for long tails, whose partners and lambdas lean to the rarer classes (Xu et al., 2021)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from rankmixup import random
from rankmixup.errors import require, require_number
from rankmixup.methods.base import register
from rankmixup.methods.mixup import MixupTraining, label_mixture_loss
from rankmixup.methods.remix import class_sizes, counts_of
from rankmixup.mixers import Mixer, Mixup
from rankmixup.ops import Logits, PerSample, PlainArray, Target, check_counts, check_floats, check_logits, check_tensor, check_unit, upcast
from rankmixup.types import Batch, Context, StepOutput


def unimix_partner(uniform: PerSample, counts: Target, *, tau: float = -0.5) -> Int[Tensor, " B"]:
    """Partners drawn with replacement from the batch, sample j with probability proportional to n_j^`tau`.

    `counts` are the training images n in the class of each sample, `uniform` one number in [0, 1) for each draw.

    >>> unimix_partner(torch.tensor([0.3, 0.6]), torch.tensor([4, 1]), tau=-1.0).tolist()  # probabilities 1/5 and 4/5
    [1, 1]
    >>> unimix_partner(torch.tensor([0.3, 0.6]), torch.tensor([4, 1]), tau=0.0).tolist()  # 1/2 and 1/2
    [0, 1]
    """
    require_number("tau", tau)
    counts, uniform = check_tensor("counts", counts), check_unit("uniform", uniform)
    device = counts.device
    require(uniform.ndim == 1, f"uniform must have shape [B], got {list(uniform.shape)}")
    require(uniform.device.type in ("cpu", device.type), f"uniform must be on the CPU or on {device}, got {uniform.device}")
    uniform = uniform.to(device)
    counts = class_sizes("counts", counts, uniform)
    # Inverting the distribution function leaves the draw itself to a CPU generator, whatever device the labels are on.
    steps = torch.softmax(tau * counts.float().log(), dim=0).cumsum(dim=0)
    return torch.searchsorted(steps, uniform.to(steps), right=True).clamp(max=len(counts) - 1)


def unimix_lambda(lam: PerSample, counts_own: Target, counts_partner: Target) -> Float[Tensor, " B"]:
    """`lam` moved by the partner's share n_j / (n_i + n_j) of both class sizes, around the circle [0, 1]: the rarer class gains.

    >>> unimix_lambda(torch.tensor([0.125, 0.5]), torch.tensor([1, 1]), torch.tensor([3, 3]))  # 0.875, and 1.25 - 1
    tensor([0.8750, 0.2500])
    """
    lam = check_unit("lam", lam)
    counts_own, counts_partner = class_sizes("counts_own", counts_own, lam), class_sizes("counts_partner", counts_partner, lam)
    moved = lam + counts_partner.to(lam.dtype) / (counts_own + counts_partner)
    return torch.where(moved > 1, moved - 1, moved)


def prior_corrected_logits(logits: Logits, class_counts: Int[Tensor, " K"] | PlainArray) -> Float[Tensor, "B K"]:
    """`logits` plus the log of each class's share of the training set: cross-entropy of these is the Bayias loss.

    Used in training alone. The published loss also subtracts log(1/K), which cross-entropy does not see.

    >>> prior_corrected_logits(torch.zeros(1, 2), torch.tensor([3, 1])).exp()
    tensor([[0.7500, 0.2500]])
    """
    logits = upcast(check_logits(check_floats("logits", logits)))
    counts = check_counts("class_counts", class_counts)
    require(not counts.is_meta or logits.is_meta, "class_counts must hold values, got a tensor on the meta device")
    counts = counts.to(logits)
    require(counts.shape == logits.shape[1:], f"class_counts must hold {logits.shape[1]} numbers, got {list(counts.shape)}")
    return logits + (counts / counts.sum()).log()


@register("unimix")
@dataclass(frozen=True)
class UniMix(MixupTraining):
    """Mixup with partners from rarer classes and lambdas that favour them, with the class prior corrected.

    Partners by `unimix_partner`, lambdas by `unimix_lambda`, label mixtures against logits with the training prior added
    (Bayias). Needs `class_counts`. `mixer.alpha` 0.8 with a draw for each sample, and tau -0.5, are the release's values for
    long-tailed CIFAR-10; it has tau -0.1 for CIFAR-100.

    **Deviation:** `prior_correction=True`, since the row called UniMix in RankMixup's table is UniMix with Bayias;
    `False` is UniMix alone. Which sample is whose partner is drawn here and given to the mixer, so every mixer serves; with
    CutMix the label has the lambda of the box as it was cut off.
    """

    needs = ("class_counts",)

    mixer: Mixer = Mixup(alpha=0.8, lam_mode="sample")
    """How samples are mixed; its lambdas are drawn as it says (one for each sample, as released) and then moved."""
    tau: float = -0.5
    """Partners are drawn in proportion to class size to this power: 0 is evenly, negative favours rare classes."""
    prior_correction: bool = True
    """Add the log of the class prior to the logits in training (the Bayias loss), or leave it out."""

    def __call__(self, model: nn.Module, batch: Batch, ctx: Context) -> StepOutput:
        counts = counts_of(batch.y, ctx, "unimix")
        size, device = len(batch.y), batch.y.device
        partner = unimix_partner(torch.rand(size, generator=ctx.rng), counts, tau=self.tau)
        width = size if self.mixer.lam_mode == "sample" else 1
        drawn = random.beta(self.mixer.alpha, (width,), ctx.rng).expand(size).to(device)
        lam = unimix_lambda(drawn, counts, counts[partner])
        mixed = self.mixer(model, batch.x, ctx.rng, raw=False, lam=lam.unsqueeze(0), partner=partner.unsqueeze(0))
        logits = mixed.logits[0]
        if self.prior_correction:
            assert ctx.class_counts is not None  # counts_of would have refused
            logits = prior_corrected_logits(logits, ctx.class_counts)
        return StepOutput(label_mixture_loss(logits, batch.y, batch.y[partner], mixed.lam[0]), None, {})
