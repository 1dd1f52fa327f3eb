"""What a metric accepts: logits `[N, K]`, or probabilities with `from_logits=False` (never guessed), and labels `[N]`.

Two classes may have one score each sample, `[N]` or `[N, 1]`: the logit or the probability of class 1. `class_scores` and
`scores_and_labels` turn them into `[N, 2]`, here and nowhere else.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from numpy.typing import NDArray
from torch import Tensor

from rankmixup.errors import InvalidInput, require, require_flag
from rankmixup.metrics.rows import Rows, row_slices
from rankmixup.ops import ArrayLike, as_tensor, check_floats, check_same_device, class_indices

Logits = Float[Tensor, "N _"] | Float[Tensor, " N"] | NDArray[Any] | Sequence[Any]
"""Logits, or probabilities where a function is given `from_logits=False`: tensor, array or list; `[N]` and `[N, 1]` are of class 1."""
Target = Int[Tensor, " N"] | Shaped[Tensor, " N"] | Shaped[Tensor, "N 1"] | NDArray[Any] | Sequence[Any]
"""The right class of each sample, as an index."""
Scalar = Float[Tensor, ""]

_SUM_TOLERANCE = 1e-3
"""How far a row of probabilities may be from 1, or as far as rounding to its type takes it: float16 reaches this, bfloat16 0.008."""

_CHUNK = 1 << 18
"""Scores in one chunk: small enough to stay in cache while it is checked and used, large enough to hide Python."""


def class_scores(scores: ArrayLike, *, from_logits: bool) -> Float[Tensor, "N K"]:
    """Scores of all classes. One score for each sample, `[N]` or `[N, 1]`, is that of class 1: logit z is [0, z], probability p [1 - p, p].

    Nothing is lost: softmax([0, z]) is sigmoid(z), and 1 - p is taken in float64.

    >>> class_scores([2.0, -1.0], from_logits=True).tolist(), class_scores([[0.25]], from_logits=False).tolist()
    ([[0.0, 2.0], [0.0, -1.0]], [[0.75, 0.25]])
    """
    require_flag("from_logits", from_logits)
    kind = "logits" if from_logits else "probs"
    scores = check_floats(kind, as_tensor(kind, scores))
    require(scores.ndim in (1, 2), f"{kind} must have shape [N, K], or [N] or [N, 1] for two classes, got {list(scores.shape)}")
    if scores.ndim == 2 and scores.shape[1] != 1:
        return scores
    score = scores.flatten()
    if from_logits:
        return torch.stack([torch.zeros_like(score), score], dim=1)
    score = score.double()
    for wrong in score[((score < 0) | (score > 1)) & score.isfinite()][:1].tolist():  # what is not finite is met later, with its row
        raise InvalidInput(f"probs of class 1 must lie in 0..1 (logits, perhaps?), got {wrong:.6g}")
    return torch.stack([1 - score, score], dim=1)


def scores_and_labels(
    scores: ArrayLike, target: ArrayLike, *, from_logits: bool, target_name: str = "target"
) -> tuple[Float[Tensor, "N K"], Int[Tensor, " N"]]:
    """As `class_scores`, with the right class of each sample as a 64-bit index; refuses labels that do not fit, and no samples at all.

    Beside scores of class 1 alone, labels may also be True and False, 0.0 and 1.0, or a column `[N, 1]`, as binary losses take them.
    """
    require_flag("from_logits", from_logits)
    kind = "logits" if from_logits else "probs"
    given, target = as_tensor(kind, scores), as_tensor(target_name, target)
    scores, shape = class_scores(given, from_logits=from_logits), list(given.shape)
    require(given.numel() > 0, f"{kind} must hold at least one sample and one class, got shape {shape}")
    if shape[1:] in ([], [1]):
        target = target.squeeze(1) if target.shape == (len(given), 1) else target
        if target.shape == (len(given),):
            for wrong in target[(target != 0) & (target != 1)][:1].tolist():
                raise InvalidInput(f"{target_name} must be 0 or 1, since {kind} of shape {shape} are of two classes, got {wrong}")
            target = target.long()
    target = class_indices(target_name, target, *scores.shape, wait=True)
    check_same_device(target_name, target, scores)
    return scores, target


def given_precision(scores: ArrayLike, from_logits: bool) -> torch.dtype:
    """The type that probabilities were rounded to; those of logits were not."""
    require_flag("from_logits", from_logits)
    return torch.float64 if from_logits else check_floats("probs", as_tensor("probs", scores)).dtype


def checked_rows(
    scores: ArrayLike, target: ArrayLike, *, from_logits: bool, target_name: str = "target", part: bool = False
) -> Iterator[Rows]:
    """Chunks of rows in order; each is checked just before, while it is read into the cache anyway.

    Refuses, in one sentence, scores and labels from which no right number can be computed. What all rows together may not be is
    known when the last one has been read; of a `part` of rows that were checked together, it is known to be fine.
    """
    precision = given_precision(scores, from_logits)
    scores, target = scores_and_labels(scores, target, from_logits=from_logits, target_name=target_name)
    scores, tolerance = scores.detach(), max(_SUM_TOLERANCE, torch.finfo(precision).eps)
    look_like_probs = True
    for place in row_slices(scores, _CHUNK):
        chunk = scores[place]
        chunk = chunk.to(torch.promote_types(chunk.dtype, torch.float32)).contiguous()  # half precision is slow, transposed scores slower
        look_like_probs = _check_part(chunk, place.start, from_logits, tolerance) and look_like_probs
        yield Rows(chunk, target[place], from_logits, precision)
    if from_logits and look_like_probs and not part:
        # Rows of a single 1 among zeros are as likely logits written by hand, and rows [0, z] are those of one logit.
        fine = bool(((scores == 0) | (scores == 1)).all()) or (scores.shape[1] == 2 and not bool(scores[:, 0].any()))
        require(fine, "logits must not be probabilities, but every row lies in [0, 1] and sums to 1; pass from_logits=False if they are")


def _check_part(part: Tensor, start: int, from_logits: bool, tolerance: float) -> bool:
    """Refuse scores that cannot be what they are said to be; tells whether they could be probabilities."""
    # A sum is finite only if every term is: the terms are looked at only where it is not, since it may overflow.
    total = part.sum(dim=1)
    low, high = (bound.item() for bound in total.aminmax())
    probs = low >= 1 - tolerance and high <= 1 + tolerance and part.min().item() >= 0
    if not math.isfinite(low + high):
        finite = part.isfinite().all(dim=1)
        kind = "logits" if from_logits else "probs"
        require(bool(finite.all()), f"{kind} must be finite, row {start + int(finite.long().argmin())} is not")
    if not from_logits and not probs:
        # Nothing negative and a sum of 1 leave no entry above 1, so that these two are all there is to check.
        smallest, row = part.min().item(), int((total - 1).abs().argmax())
        require(smallest >= 0, f"probs must not be negative (logits, perhaps?), got {smallest:.6g}")
        raise InvalidInput(f"probs must sum to 1 in every row (logits, perhaps?), row {start + row} sums to {total[row]:.6g}")
    return probs


def check_scores(
    scores: ArrayLike, target: ArrayLike, *, from_logits: bool = True, target_name: str = "target", part: bool = False
) -> None:
    """Refuse, in one sentence, scores and labels from which no right number can be computed."""
    for _ in checked_rows(scores, target, from_logits=from_logits, target_name=target_name, part=part):
        pass


def per_sample(numbers: Callable[[Rows], Tensor], logits: Logits, target: Target, from_logits: bool) -> Float[Tensor, "... N"]:
    """What `numbers` reads from the rows of checked scores, in float64."""
    return torch.cat([numbers(rows) for rows in checked_rows(logits, target, from_logits=from_logits)], dim=-1).double()


def top_label(logits: Logits, target: Target, *, from_logits: bool) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
    """Confidence of each prediction, Eq. (3), and whether it is right (1.0 or 0.0), of checked scores.

    The prediction is the first of the largest scores.

    >>> top_label(torch.tensor([[0.8, 0.2], [0.5, 0.5]]), torch.tensor([0, 1]), from_logits=False)
    (tensor([0.8000, 0.5000], dtype=torch.float64), tensor([1., 0.], dtype=torch.float64))
    """
    confidence, correct = per_sample(lambda rows: torch.stack([rows.confidence, rows.right_within(1)]), logits, target, from_logits)
    return confidence, correct


def ranked_label(logits: Logits, target: Target, *, from_logits: bool) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
    """As `top_label`, with the log-odds of each confidence in its place: they have an order where confidences round to 1."""
    log_odds, correct = per_sample(lambda rows: torch.stack([rows.log_odds, rows.right_within(1)]), logits, target, from_logits)
    return log_odds, correct
