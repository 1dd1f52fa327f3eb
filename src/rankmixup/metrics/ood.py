"""Out-of-distribution detection: a score that is larger for OOD samples, and how well it separates them."""

from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup.errors import require, require_choice
from rankmixup.metrics.inputs import Logits, class_scores, per_sample
from rankmixup.metrics.rows import Rows
from rankmixup.metrics.ties import tie_groups
from rankmixup.ops import ArrayLike, as_tensor, check_floats, check_same_device

OODKind = Literal["entropy", "max-probability", "energy"]
KINDS: tuple[OODKind, ...] = get_args(OODKind)


def ood_scores(logits: Logits, kind: OODKind = "entropy", *, from_logits: bool = True) -> Float[Tensor, " N"]:
    """Score of each sample in float64; a larger score means that it is more likely OOD.

    `"entropy"` of the probabilities in nats is the paper's; `"max-probability"` is 1 - confidence; `"energy"` is -logsumexp of
    the logits and needs those. With `from_logits=False` the scores are probabilities.

    >>> [round(score, 4) for score in ood_scores(torch.tensor([[0.0, 0.0], [3.0, 0.0]])).tolist()]
    [0.6931, 0.1909]
    """
    require_choice("kind", kind, KINDS)
    logits = class_scores(logits, from_logits=from_logits)
    require(from_logits or kind != "energy", "energy must be computed from logits, got probabilities")
    nothing = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
    return per_sample(lambda rows: _ood_score(rows, kind), logits, nothing, from_logits)


def _ood_score(rows: Rows, kind: OODKind) -> Tensor:
    scores = rows.scores.double()
    if kind == "energy":
        return -scores.logsumexp(dim=1)
    # A probability of 0 has no part in either score; clamping its logarithm keeps 0 * -inf out.
    logs = scores.log_softmax(dim=1) if rows.from_logits else scores.log().clamp(min=-1e4)
    return -(logs.exp() * logs).sum(dim=1) if kind == "entropy" else -logs.amax(dim=1).expm1()


def ood_detection(id_scores: ArrayLike, ood_scores: ArrayLike) -> dict[str, float]:
    """How well scores that are larger for OOD samples separate the two sets.

    `auroc`: chance that an OOD sample scores higher than an ID one, a tie counts half. `aupr_out`, `aupr_in`: average
    precision with OOD, or ID, as what is looked for. `fpr95`: share of OOD samples accepted at the lowest threshold that
    accepts at least 95 % of ID samples. No metric depends on the order of samples or of ties.

    >>> ood_detection(torch.tensor([0.1, 0.2, 0.3, 0.5]), torch.tensor([0.4, 0.6]))
    {'auroc': 0.875, 'aupr_in': 0.95, 'aupr_out': 0.8333333333333333, 'fpr95': 0.5}
    """
    id_scores, ood_scores = as_tensor("id_scores", id_scores), as_tensor("ood_scores", ood_scores)
    check_same_device("ood_scores", ood_scores, id_scores)
    for name, scores in (("id_scores", id_scores), ("ood_scores", ood_scores)):
        check_floats(name, scores)
        require(scores.ndim == 1, f"{name} must have shape [N], got {list(scores.shape)}")
        require(len(scores) > 0, f"{name} must hold at least one sample, got none")
        require(bool(scores.isfinite().all()), f"{name} must be finite, sample {int(scores.isfinite().long().argmin())} is not")
    both = torch.cat([id_scores, ood_scores])
    is_ood = torch.cat([torch.zeros(len(id_scores)), torch.ones(len(ood_scores))]).to(both.device)
    groups = tie_groups(both, is_ood)
    accepted = (groups.size - groups.positive).cumsum(0)
    # In whole numbers: 0.95 N is not exact in floating point where it is a whole number.
    threshold = int((100 * accepted.long() >= 95 * len(id_scores)).long().argmax())
    return {
        "auroc": groups.auroc().item(),
        "aupr_in": tie_groups(-both, 1 - is_ood).average_precision().item(),
        "aupr_out": groups.average_precision().item(),
        "fpr95": groups.positive[: threshold + 1].sum().item() / len(ood_scores),
    }
