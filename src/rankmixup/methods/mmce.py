"""MMCE: cross-entropy plus a kernel estimate of the calibration error within the batch."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from rankmixup.errors import require, require_choice, require_number
from rankmixup.methods.base import LossMethod, register
from rankmixup.ops import Logits, Loss, Reduction, Target, check_batch, confidence, reduce

Form = Literal["squared", "weighted"]

_WIDTH = 0.4  # of the Laplacian kernel, in every implementation


def mmce_loss(logits: Logits, target: Target, *, weight: float = 1.0, form: Form = "squared", reduction: Reduction = "mean") -> Loss:
    """Cross-entropy plus `weight` times the maximum mean calibration error (MMCE) of the batch.

    With confidences r, correctness c (a constant to the gradient) and the kernel `k_ij = exp(-|r_i - r_j| / 0.4)`, the `"squared"`
    form is 1/B^2 sum_ij (c_i - r_i)(c_j - r_j) k_ij. A sample's own loss holds its row of that sum.

    The `"weighted"` form splits the batch into m correct and n wrong samples: sqrt(P/m^2 + Q/n^2 - 2R/(mn)), where P, Q and R are
    the means of k_ij times (1 - r_i)(1 - r_j), r_i r_j and (1 - r_i) r_j over pairs of correct, of wrong, and of one of each. It is
    0 when all or none are correct, and belongs to the batch as a whole, so it has no `reduction="none"`.

    **Deviation:** MMCE is defined as the square root; `"squared"`, without it and with the pairs i = j, is the form that the
    release trains. `"weighted"` divides the means P, Q, R by the group sizes once more, as all releases of it do, and keeps the
    number under the root from falling below 0 by rounding, which they do not.

    >>> logits = torch.tensor([[0.0, 1.0986123]]).repeat(2, 1)  # both predict class 1 with confidence 3/4
    >>> target = torch.tensor([1, 0])  # cross-entropy (ln 4/3 + ln 4) / 2 = 0.837
    >>> round(mmce_loss(logits, target).item(), 4)  # residuals 1/4 and -3/4: + (1/4 - 3/4)^2 / 4
    0.8995
    >>> round(mmce_loss(logits, target, form="weighted").item(), 4)  # + 3/4 - 1/4
    1.337
    """
    require_number("weight", weight, least=0)
    require_choice("form", form, ("squared", "weighted"))
    refused = "reduction must be 'mean' or 'sum' for the form 'weighted', which is one number for the whole batch, got 'none'"
    require(form == "squared" or reduction != "none", refused)
    logits, target = check_batch(logits, target)
    term = (_squared if form == "squared" else _weighted)(confidence(logits), logits.argmax(dim=1) == target)
    return reduce(F.cross_entropy(logits, target, reduction="none") + weight * term, reduction)


# Sums of products rather than matrix products, which autocast would run in half precision.


def _kernel(conf: Float[Tensor, " B"]) -> Float[Tensor, "B B"]:
    return torch.exp(-(conf.unsqueeze(1) - conf).abs() / _WIDTH)


def _squared(conf: Float[Tensor, " B"], correct: Bool[Tensor, " B"]) -> Float[Tensor, " B"]:
    residual = correct.to(conf.dtype) - conf
    return residual * (_kernel(conf) * residual).mean(dim=1)


def _weighted(conf: Float[Tensor, " B"], correct: Bool[Tensor, " B"]) -> Float[Tensor, ""]:
    hit = correct.to(conf.dtype)
    miss = 1 - hit
    under, over = hit * (1 - conf), miss * conf
    m, n = hit.sum(), miss.sum()
    kernel = _kernel(conf)

    def part(left: Tensor, right: Tensor, pairs: Tensor) -> Tensor:
        mean = (left.unsqueeze(1) * right * kernel).sum() / pairs.clamp(min=1)
        return mean / (pairs + 1e-5)

    squared = part(under, under, m * m) + part(over, over, n * n) - 2 * part(under, over, m * n)
    return torch.where(m * n > 0, torch.sqrt(squared.clamp(min=0) + 1e-10), 0.0)


@register("mmce")
@dataclass(frozen=True)
class MMCE(LossMethod):
    """Cross-entropy plus a kernel estimate of the batch's calibration error (Kumar et al., 2018).

    Defaults are the release's: the squared, unweighted form with weight 1. The supplement gives none; the authors of FLSD trained
    the weighted form with weight 2.
    """

    function = staticmethod(mmce_loss)
    nonnegative = ("weight",)
    weight: float = 1.0
    """Weight of the calibration term (lambda in Kumar et al.)."""
    form: Form = "squared"
    """MMCE_m without its root, as released, or the square-root form MMCE_w that balances right and wrong predictions."""
