"""What metrics read from rows of scores; each figure is computed once, when first asked for, while the rows are in cache."""

from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rankmixup.errors import require_whole

MOST_BINS = 1000
"""More bins than this hold no samples worth the name, and with many classes fill the memory."""
_ROUNDING = 1e-6
"""How far above an edge a confidence still counts as the edge: far above the rounding of float32, far below what a bin tells apart."""


def row_slices(scores: Float[Tensor, "N K"], numbers: int) -> list[slice]:
    """Consecutive rows that hold at most `numbers` numbers, or one row."""
    size = max(1, numbers // scores.shape[1])
    return [slice(start, start + size) for start in range(0, len(scores), size)]


def check_num_bins(num_bins: int) -> int:
    """`num_bins`; refuses what is not a whole number from 1 to `MOST_BINS`."""
    return require_whole("num_bins", num_bins, least=1, most=MOST_BINS)


def bin_index(confidence: Float[Tensor, " N"], num_bins: int, precision: torch.dtype | None = None) -> Int[Tensor, " N"]:
    """Number of the right-closed equal-width bin of each confidence; 0 belongs to the first. For `precision` see `bin_edges`.

    >>> bin_index(torch.tensor([0.1, 0.5, 0.50001, 1.0]), 2)
    tensor([0, 0, 1, 1])
    """
    return torch.bucketize(confidence.double().contiguous(), bin_edges(num_bins, precision or confidence.dtype, confidence.device))


def bin_edges(num_bins: int, precision: torch.dtype, device: torch.device | str = "cpu") -> Float[Tensor, " E"]:
    """The largest confidence of every bin but the last: of bin k of B that is k / B, and whatever k / B is rounded to.

    `precision` is the type that probabilities were given in: 0.6 is 0.6016 in bfloat16, and belongs to the same bin in both.
    """
    exact = torch.arange(1, check_num_bins(num_bins), dtype=torch.float64, device=device) / num_bins
    return exact.maximum(exact.to(precision).double()) + _ROUNDING


def above_first_bin(
    probs: Float[Tensor, "n K"], num_bins: int, precision: torch.dtype
) -> tuple[Int[Tensor, " A"], Int[Tensor, " A"], Float[Tensor, " A"]]:
    """Of the few probabilities outside the first bin: flat position, cell (class times bins plus bin), and value.

    At most H classes of a row lie above the first edge, 1 / H: with many classes only these few must be binned one by one.
    """
    flat = probs.flatten()
    above = (flat > bin_edges(num_bins, precision)[0].item()).nonzero().squeeze(1) if num_bins > 1 else flat.new_zeros(0, dtype=torch.long)
    values = flat.index_select(0, above)
    return above, above % probs.shape[1] * num_bins + bin_index(values, num_bins, precision), values


class Rows:
    """A chunk of checked scores `[n, K]` of any precision, with its labels; every figure is computed in float64.

    Softmax is never formed for a figure of single rows: with m the largest logit and s the sum of exp(z - m), the confidence
    is 1 / s. The right class is kept out of sums over classes, so that 1 - p(right) is a sum of small numbers and not a
    difference of large ones: a loss of 1e-20 is still one.
    """

    def __init__(self, scores: Tensor, target: Tensor, from_logits: bool, precision: torch.dtype = torch.float64):
        self.scores, self.target, self.from_logits, self.precision = scores, target, from_logits, precision

    @cached_property
    def largest(self) -> Float[Tensor, " n"]:
        """Largest score. Without its position: finding that takes five times as long."""
        return self.scores.amax(dim=1).double()

    @cached_property
    def right_score(self) -> Float[Tensor, " n"]:
        return self.scores.gather(1, self.target.unsqueeze(1)).squeeze(1).double()

    @cached_property
    def _wrong(self) -> Float[Tensor, "n K"]:
        """exp(z - m), or probabilities, with 0 for the right class."""
        values = (self.scores - self.largest.unsqueeze(1)).exp_() if self.from_logits else self.scores.to(torch.float64, copy=True)
        return values.scatter_(1, self.target.unsqueeze(1), 0.0)

    @cached_property
    def _wrong_sum(self) -> Float[Tensor, " n"]:
        return self._wrong.sum(dim=1)

    @cached_property
    def _right(self) -> Float[Tensor, " n"]:
        """exp(z - m), or the probability, of the right class."""
        return (self.right_score - self.largest).exp() if self.from_logits else self.right_score

    @cached_property
    def _others_sum(self) -> Float[Tensor, " n"]:
        """Sum of exp(z - m) over all classes but the predicted one."""
        total = self._wrong_sum.clone()
        rows = (self.right_score != self.largest).nonzero().squeeze(1)
        if len(rows) > 0:
            values = self._wrong.index_select(0, rows)
            top = values == 1
            total[rows] = values.masked_fill_(top, 0).sum(dim=1) + (top.sum(dim=1) - 1) + self._right[rows]
        return total

    @cached_property
    def _scale(self) -> Float[Tensor, " n"]:
        """1 / s; 1 for probabilities, which are taken as they are."""
        return 1 / (1 + self._others_sum) if self.from_logits else torch.ones_like(self._right)

    @cached_property
    def confidence(self) -> Float[Tensor, " n"]:
        """Largest probability."""
        return self._scale if self.from_logits else self.largest

    @cached_property
    def log_odds(self) -> Float[Tensor, " n"]:
        """Log-odds log(p / (1 - p)) of the confidence p: they order predictions as p does, also where p rounds to 1."""
        if self.from_logits:
            odds = -self._others_sum.log()
            rows = (self._others_sum < 1e-300).nonzero().squeeze(1)  # almost or altogether underflowed
            below = self.scores.index_select(0, rows) - self.largest[rows].unsqueeze(1)
        else:
            odds = self.largest.log() - (-self.largest).log1p()
            rows = (self.largest >= 1).nonzero().squeeze(1)
            below = self.scores.index_select(0, rows).double().log()
        top = below.argmax(dim=1, keepdim=True)
        return odds.index_copy_(0, rows, -below.scatter_(1, top, -torch.inf).logsumexp(dim=1))

    @property
    def probabilities(self) -> Float[Tensor, "n K"]:
        """All of them, which most figures do without."""
        if not self.from_logits:
            return self.scores.double()
        return (self._wrong * self._scale.unsqueeze(1)).scatter_(1, self.target.unsqueeze(1), self.right_probability.unsqueeze(1))

    @cached_property
    def right_probability(self) -> Float[Tensor, " n"]:
        return self._right * self._scale if self.from_logits else self.right_score

    @cached_property
    def nll(self) -> Float[Tensor, " n"]:
        """-log(probability of the right class)."""
        if not self.from_logits:
            return -self._right.log()
        return (self.largest - self.right_score) - self._scale.log()

    @cached_property
    def brier(self) -> Float[Tensor, " n"]:
        """Squared distance of the probabilities from the one-hot label."""
        squares = torch.linalg.vector_norm(self._wrong, dim=1).square()
        missing = self._wrong_sum if self.from_logits else 1 - self._right
        return (squares + missing.square()) * self._scale.square()

    def right_within(self, k: int) -> Bool[Tensor, " n"]:
        """Whether fewer than k classes come before the right one: those with a larger score, or an equal one and a smaller index."""
        # A class that has more than 1 / (k + 1) of the probability leaves no room for k others that have as much. (Rows may
        # sum to a little more than 1.) Only the rest must be counted, which takes longer than everything before.
        sure = self.right_probability > 1.01 / (k + 1)
        maybe = ~sure & (self.right_score == self.largest) if k == 1 else ~sure
        rows = maybe.nonzero().squeeze(1)
        if len(rows) == 0:
            return sure
        # index_select copies whole rows; indexing with a tensor goes through them one number at a time.
        target, score = (each.index_select(0, rows).unsqueeze(1) for each in (self.target, self.right_score))
        scores = self.scores if k > 1 and len(rows) == len(self.scores) else self.scores.index_select(0, rows)
        if k == 1:
            ahead = torch.zeros_like(rows)
            tied = scores.scatter_(1, target, -torch.inf).amax(dim=1) == score.squeeze(1)
        else:
            ahead = (scores > score).sum(dim=1)
            tied = ahead < k
        tied = tied.nonzero().squeeze(1)
        if len(tied) > 0:
            equal = self.scores.index_select(0, rows[tied]) == score[tied]
            earlier = torch.arange(scores.shape[1], device=scores.device) < target[tied]
            ahead[tied] += (equal & earlier).sum(dim=1)
        return sure.index_copy_(0, rows, ahead < k)

    def class_gaps(self, num_bins: int) -> Float[Tensor, "K H"]:
        """Sum of probability minus label, for each class and each right-closed equal-width bin of its probability."""
        wrong = self._wrong * self._scale.unsqueeze(1) if self.from_logits else self._wrong.clone()
        classes = wrong.shape[1]
        right = self.right_probability
        place, weight = [self.target * num_bins + bin_index(right, num_bins, self.precision)], [right - 1]
        above, cells, values = above_first_bin(wrong, num_bins, self.precision)
        place.append(cells)
        weight.append(values)
        wrong.view(-1).index_fill_(0, above, 0.0)
        gaps = torch.bincount(torch.cat(place), torch.cat(weight), minlength=classes * num_bins).view(classes, num_bins)
        gaps[:, 0] += wrong.sum(dim=0)
        return gaps
