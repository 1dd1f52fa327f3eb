"""What a metric accepts: logits `[N, K]`, or probabilities with `from_logits=False` (never guessed), and labels `[N]`."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, TypeVar

import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from rankmixup.errors import InvalidInput, require, require_flag
from rankmixup.metrics.rows import Rows, row_slices
from rankmixup.ops import ArrayLike, as_tensor, check_floats, check_same_device, class_indices

T = TypeVar("T")
Logits = Float[Tensor, "N K"] | NDArray[Any] | Sequence[Any]
"""Logits, or probabilities where a function is given `from_logits=False`: a tensor, an array or a list of rows."""
Target = Int[Tensor, " N"] | NDArray[Any] | Sequence[Any]
"""The right class of each sample, as an index."""
Scalar = Float[Tensor, ""]

_SUM_TOLERANCE = 1e-3
"""How far a row of probabilities may be from 1: half-precision softmaxes over many classes reach about this."""

_CHUNK = 1 << 18
"""Scores in one chunk: small enough to stay in cache while it is checked and used, large enough to hide Python."""


def checked_rows(scores: ArrayLike, target: ArrayLike, *, from_logits: bool, target_name: str = "target") -> Iterator[Rows]:
    """Chunks of rows in order; each is checked just before, while it is read into the cache anyway.

    Refuses, in one sentence, scores and labels from which no right number can be computed. What all rows together may not be is
    known when the last one has been read.
    """
    scores, target = _check_shapes(scores, target, from_logits, target_name)
    scores, target = scores.detach(), target.detach().long()
    look_like_probs = True
    for place in row_slices(scores, _CHUNK):
        part = scores[place]
        part = part.to(torch.promote_types(part.dtype, torch.float32)).contiguous()  # half precision is slow, transposed scores slower
        look_like_probs = _check_part(part, place.start, from_logits) and look_like_probs
        yield Rows(part, target[place], from_logits)
    if from_logits and look_like_probs:
        # Rows of a single 1 among zeros are as likely logits written by hand.
        one_hot = bool(((scores == 0) | (scores == 1)).all())
        require(one_hot, "logits must not be probabilities, but every row lies in [0, 1] and sums to 1; pass from_logits=False if they are")


def over_rows(figures: Callable[[Rows], T], scores: ArrayLike, target: ArrayLike, *, from_logits: bool) -> list[T]:
    """What `figures` makes of each chunk of `checked_rows`."""
    return [figures(rows) for rows in checked_rows(scores, target, from_logits=from_logits)]


def _check_part(part: Tensor, start: int, from_logits: bool) -> bool:
    """Refuse scores that cannot be what they are said to be; tells whether they could be probabilities."""
    # A sum is finite only if every term is: the terms are looked at only where it is not, since it may overflow.
    total = part.sum(dim=1)
    low, high = (bound.item() for bound in total.aminmax())
    probs = low >= 1 - _SUM_TOLERANCE and high <= 1 + _SUM_TOLERANCE and part.min().item() >= 0
    if not from_logits and not probs:
        _refuse_probabilities(part, total, start)
    if not math.isfinite(low + high):
        _require_finite(part, start, "logits")
    return probs


def check_scores(scores: ArrayLike, target: ArrayLike, *, from_logits: bool = True, target_name: str = "target") -> None:
    """Refuse, in one sentence, scores and labels from which no right number can be computed."""
    for _ in checked_rows(scores, target, from_logits=from_logits, target_name=target_name):
        pass


def _check_shapes(scores: Any, target: Any, from_logits: bool, target_name: str) -> tuple[Tensor, Tensor]:
    """Tensors of scores `[N, K]` and of class indices `[N]`, made of tensors, arrays or lists; whatever is something else is refused."""
    require_flag("from_logits", from_logits)
    kind = "logits" if from_logits else "probs"
    scores = check_floats(kind, as_tensor(kind, scores))
    require(scores.ndim == 2, f"{kind} must have shape [N, K], got {list(scores.shape)}")
    samples, classes = scores.shape
    require(samples > 0 and classes > 0, f"{kind} must hold at least one sample and one class, got shape {list(scores.shape)}")
    target = class_indices(target_name, as_tensor(target_name, target), samples, classes, wait=True)
    check_same_device(target_name, target, scores)
    return scores, target


def _require_finite(part: Tensor, start: int, kind: str) -> None:
    finite = part.isfinite().all(dim=1)
    require(bool(finite.all()), f"{kind} must be finite, row {start + int(finite.long().argmin())} is not")


def _refuse_probabilities(part: Tensor, total: Tensor, start: int) -> NoReturn:
    """Say what is wrong. Nothing negative and a sum of 1 leave no entry above 1, so that these two are all there is to check."""
    _require_finite(part, start, "probs")
    smallest = part.min().item()
    require(smallest >= 0, f"probs must not be negative (logits, perhaps?), got {smallest:.6g}")
    row = int((total - 1).abs().argmax())
    raise InvalidInput(f"probs must sum to 1 in every row (logits, perhaps?), row {start + row} sums to {total[row]:.6g}")


def top_label(logits: Logits, target: Target, *, from_logits: bool) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
    """Confidence of each prediction, Eq. (3), and whether it is right (1.0 or 0.0), of checked scores.

    The prediction is the first of the largest scores.

    >>> top_label(torch.tensor([[0.8, 0.2], [0.5, 0.5]]), torch.tensor([0, 1]), from_logits=False)
    (tensor([0.8000, 0.5000], dtype=torch.float64), tensor([1., 0.], dtype=torch.float64))
    """
    return _columns(lambda rows: (rows.confidence, rows.right_within(1)), logits, target, from_logits)


def ranked_label(logits: Logits, target: Target, *, from_logits: bool) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
    """As `top_label`, with the log-odds of each confidence in its place: they have an order where confidences round to 1."""
    return _columns(lambda rows: (rows.log_odds, rows.right_within(1)), logits, target, from_logits)


def _columns(pair: Callable[[Rows], tuple[Tensor, Tensor]], logits: Logits, target: Target, from_logits: bool) -> tuple[Tensor, Tensor]:
    first, second = (torch.cat(column) for column in zip(*over_rows(pair, logits, target, from_logits=from_logits), strict=True))
    return first, second.double()
