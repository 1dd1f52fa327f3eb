"""How well a score separates out-of-distribution samples from test samples, with bootstrap intervals."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup import random
from rankmixup.errors import require
from rankmixup.evaluation.results import Detection, Estimate, percentiles
from rankmixup.evaluation.scores import Scores
from rankmixup.metrics.ood import OODKind, ood_detection, ood_scores

FPR95_RULE = "share of OOD samples accepted at the lowest threshold that accepts at least 95 % of ID samples"
"""What `fpr95` is, wherever it is explained."""
_CHUNK = 4_000_000
"""Numbers that a chunk of replicates may hold."""


def detect_all(
    known: Scores,
    unknown: Mapping[str, Scores],
    score: OODKind,
    *,
    replicates: int,
    seed: int,
    shared_classes: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Detection]:
    """`detect` for each named set; `shared_classes` are those of a set that the model was trained on."""
    classes = known.scores.shape[1]
    found = {}
    for name, scores in unknown.items():
        others = scores.scores.shape[1]
        require(others == classes, f"{name} and the test scores must have the same number of classes, got {others} and {classes}")
        metrics = detect(known, scores, score, replicates=replicates, rng=random.stream(seed, "ood", name))
        found[name] = Detection(len(scores), score, metrics, tuple((shared_classes or {}).get(name, ())))
    return found


def detect(known: Scores, unknown: Scores, score: OODKind, *, replicates: int, rng: torch.Generator) -> dict[str, Estimate]:
    """Metrics of the separation of unknown samples from known ones."""
    inside, outside = (ood_scores(scores.scores, score, from_logits=scores.from_logits) for scores in (known, unknown))
    draws = ood_bootstrap(inside, outside, replicates, rng)
    return {key: Estimate(float(value), *percentiles(draws[key])) for key, value in ood_detection(inside, outside).items()}


def ood_bootstrap(
    inside: Float[Tensor, " N"], outside: Float[Tensor, " M"], replicates: int, rng: torch.Generator
) -> dict[str, Float[Tensor, " R"]]:
    """The metrics of `ood_detection` for `replicates` resamples of either set, each on its own.

    All follow from how many samples of either set a resample has at each distinct score.
    """
    values, rank = torch.cat([inside, outside]).double().unique(return_inverse=True)
    parts: list[dict[str, Tensor]] = []
    rows = max(1, _CHUNK // max(len(values), len(inside), len(outside)))
    for start in range(0, replicates, rows):
        size = min(rows, replicates - start)
        parts.append(_from_counts(*(_resampled(each, size, len(values), rng) for each in rank.split([len(inside), len(outside)]))))
    return {key: torch.cat([part[key] for part in parts]) for key in parts[0]}


def _resampled(rank: Tensor, replicates: int, size: int, rng: torch.Generator) -> Tensor:
    drawn = rank[torch.randint(len(rank), (replicates, len(rank)), generator=rng)]
    return torch.zeros(replicates, size, dtype=torch.float64).scatter_add_(1, drawn, torch.ones(drawn.shape, dtype=torch.float64))


def _from_counts(inside: Tensor, outside: Tensor) -> dict[str, Tensor]:
    """From the number of samples of either set at each score `[R, G]`, in rising order."""
    kept, let_in = inside.cumsum(1), outside.cumsum(1)  # at or below each score
    known, unknown = kept[:, -1:], let_in[:, -1:]
    above, raised = known - kept + inside, unknown - let_in + outside  # at or above each score
    threshold = (20 * kept >= 19 * known).to(torch.uint8).argmax(dim=1, keepdim=True)  # the lowest that accepts at least 95 %
    return {
        "auroc": (outside * (kept - inside / 2)).sum(1) / (known * unknown).squeeze(1),
        "aupr_in": (inside * kept / (kept + let_in).clamp(min=1)).sum(1) / known.squeeze(1),
        "aupr_out": (outside * raised / (above + raised).clamp(min=1)).sum(1) / unknown.squeeze(1),
        "fpr95": (let_in.gather(1, threshold) / unknown).squeeze(1),
    }


def auroc_estimate(inside: Float[Tensor, " N"], outside: Float[Tensor, " M"]) -> Estimate:
    """AUROC of OOD scores with DeLong's interval, which needs no resampling.

    Its variance is that of each sample's share of the other set that it is separated from.
    """
    separated = (_share_below(outside, inside), 1 - _share_below(inside, outside))
    value = separated[0].mean().item()
    error = sum(share.var(correction=0).item() / len(share) for share in separated) ** 0.5
    return Estimate(value, max(value - 1.96 * error, 0.0), min(value + 1.96 * error, 1.0))


def _share_below(values: Tensor, among: Tensor) -> Tensor:
    """For each value the share of `among` that is smaller, equal ones by half."""
    ordered = among.sort().values
    below, upto = (torch.searchsorted(ordered, values, right=right) for right in (False, True))
    return (below + upto).double() / (2 * len(ordered))
