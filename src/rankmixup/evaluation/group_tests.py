"""Whether groups of samples differ, by permutation.

The value of a group is compared with its mean over permutations of the group labels and divided by its standard deviation over them; the
statistic is the largest such deviation of any group. A calibration error of few samples is large and varies much, permuted or not, so
that a small group stands out only where its samples do. The p-value is exact if groups are exchangeable, since observed labels are
treated as one more permutation.

Tests of accuracy, NLL and Brier score exchange all samples. The two tests of calibration exchange only samples of nearly the same
confidence. They ask whether predictions of the same confidence are right equally often in every group; a group that is only harder, and
whose confidence is lower for it, does not stand out.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rankmixup.evaluation.replicates import Samples

GAP_KEYS = ("ece", "overconfidence", "accuracy", "nll", "brier")
"""What groups are tested for; overconfidence is mean confidence minus accuracy."""
_STRATUM = 50
"""Samples of nearly the same confidence that are exchanged: few enough to be alike, enough to come from every group."""
_MOST_STRATA = 1000

Numbers = NDArray[np.float64]


class Deviation(NamedTuple):
    """The group that deviates most from what permutations show, and how often permutations show as much."""

    group: int
    observed: float
    expected: float
    deviation: float
    """Observed minus expected value, in standard deviations over permutations."""
    p_value: float


@dataclass(frozen=True)
class GroupedSamples:
    """Samples in order of confidence, with the group of each."""

    codes: NDArray[np.int64]
    sizes: NDArray[np.int64]
    columns: dict[str, Numbers]
    """What each sample adds to a mean: accuracy, nll and brier; and `gap`, confidence minus correctness."""
    bins: NDArray[np.int64]
    num_bins: int
    strata: NDArray[np.int16]

    @classmethod
    def of(cls, samples: Samples, codes: NDArray[np.int64], num_groups: int, num_bins: int) -> "GroupedSamples":
        """`codes` are in the order in which the samples were read."""
        means = {key: samples.means[key].double().numpy() for key in ("accuracy", "nll", "brier")}
        confidence, codes = samples.confidence.numpy(), codes[samples.order.numpy()]
        sizes = np.bincount(codes, minlength=num_groups)
        # Samples are put in an order that depends on themselves alone, so that no result depends on the order of rows.
        order = np.lexsort((sizes[codes], means["brier"], means["nll"], means["accuracy"], confidence))
        confidence, columns = confidence[order], {key: column[order] for key, column in means.items()}
        width = max(_STRATUM, -(-len(order) // _MOST_STRATA))
        strata = np.searchsorted(confidence, confidence) // width  # equal confidences are in one stratum
        bins = np.repeat(np.arange(num_bins), samples.width.start.diff().numpy())
        columns["gap"] = confidence - columns["accuracy"]
        return cls(codes[order], sizes, columns, bins, num_bins, strata.astype(np.int16))

    def values(self, order: NDArray[np.int64] | None = None) -> dict[str, Numbers]:
        """Each number of `GAP_KEYS` for every group; labels of groups are exchanged as a random order of samples says, if there is one."""
        within = slice(None) if order is None else order[np.argsort(self.strata[order], kind="stable")]
        freely = slice(None) if order is None else order
        groups = len(self.sizes)
        cells = self.codes * self.num_bins + self.bins[within]
        gaps = np.bincount(cells, self.columns["gap"][within], groups * self.num_bins).reshape(groups, -1)
        found = {"ece": np.abs(gaps).sum(axis=1), "overconfidence": gaps.sum(axis=1)}
        found |= {key: np.bincount(self.codes, self.columns[key][freely], groups) for key in ("accuracy", "nll", "brier")}
        return {key: total / self.sizes for key, total in found.items()}


def permutation_tests(grouped: GroupedSamples, tested: NDArray[np.bool_], permutations: int, rng: torch.Generator) -> dict[str, Deviation]:
    """The test of each number of `GAP_KEYS` that is finite, over the groups that are `tested`."""
    drawn = {key: [values] for key, values in grouped.values().items() if np.isfinite(values).all()}
    for _ in range(permutations):
        values = grouped.values(torch.randperm(len(grouped.codes), generator=rng).numpy())
        for key, rows in drawn.items():
            rows.append(values[key])
    return {key: _deviation(key, np.stack(rows), tested) for key, rows in drawn.items()}


def _deviation(key: str, values: Numbers, tested: NDArray[np.bool_]) -> Deviation:
    """From the values `[1 + permutations, groups]`, of which the first are observed."""
    expected, spread = values.mean(axis=0), values.std(axis=0)
    varies = tested & (spread > 1e-12)
    scores = np.where(varies, (values - expected) / np.where(varies, spread, 1.0), 0.0)
    statistic = np.abs(scores).max(axis=1)
    # As in `noise_floor`: sums in different orders may differ by rounding.
    p_value = float(np.mean(statistic >= statistic[0] - 1e-9))
    # Of two groups, both deviate by as much: the worse one is named.
    worse = -values[0] if key == "accuracy" else np.abs(values[0])
    extreme = int(np.where(tested & (np.abs(scores[0]) >= statistic[0] - 1e-9), worse, -np.inf).argmax())
    return Deviation(extreme, float(values[0, extreme]), float(expected[extreme]), float(scores[0, extreme]), p_value)
