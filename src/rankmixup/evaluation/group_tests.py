"""Whether groups of samples differ, by permutation.

The value of a group is compared with its mean over permutations of the group labels and divided by its standard deviation over them; the
statistic is the largest such deviation of any group. A calibration error of few samples is large and varies much, permuted or not, so
that a small group stands out only where its samples do. The p-value is exact if groups are exchangeable, since observed labels are
treated as one more permutation.

Tests of accuracy, NLL and Brier score exchange all samples. The two tests of calibration exchange only samples of nearly the same
confidence. They ask whether predictions of the same confidence are right equally often in every group; a group that is only harder, and
whose confidence is lower for it, does not stand out.

Of a positive class, the same is asked of its probability. Its ECE is tested by permutation; whether some groups have more or fewer samples
of the class than others for their probabilities, by the exact mean and covariance that permutations have (the generalized
Cochran-Mantel-Haenszel test), whose p-values are not limited by the number of permutations; and the slopes of its log-odds by Cochran's Q.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rankmixup.evaluation.replicates import Samples

GAP_KEYS = ("ece", "overconfidence", "accuracy", "nll", "brier")
"""What groups are tested for; overconfidence is mean confidence minus accuracy."""
POSITIVE_GAP_KEYS = ("positive.observed_over_expected", "positive.slope", "positive.ece")
"""What they are tested for besides, and first, if there is a positive class."""
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
    """What each sample adds to a mean: accuracy and, of predicted classes, nll and brier; and `gap`, confidence minus correctness."""
    bins: NDArray[np.int64]
    num_bins: int
    strata: NDArray[np.int16]

    @classmethod
    def of(cls, samples: Samples, codes: NDArray[np.int64], num_groups: int, num_bins: int) -> "GroupedSamples":
        """`codes` are in the order in which the samples were read."""
        means = {"accuracy": samples.right.double().numpy()}
        means |= {key: samples.means[key].double().numpy() for key in ("nll", "brier") if key in samples.means}
        confidence, codes = samples.confidence.numpy(), codes[samples.order.numpy()]
        sizes = np.bincount(codes, minlength=num_groups)
        # Samples are put in an order that depends on themselves alone, so that no result depends on the order of rows.
        order = np.lexsort((sizes[codes], *reversed(means.values()), confidence))
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
        found |= {key: np.bincount(self.codes, column[freely], groups) for key, column in self.columns.items() if key != "gap"}
        return {key: total / self.sizes for key, total in found.items()}


def permutation_tests(grouped: GroupedSamples, tested: NDArray[np.bool_], permutations: int, rng: torch.Generator) -> dict[str, Deviation]:
    """The test of each number of `GAP_KEYS` that is finite, over the groups that are `tested`."""
    drawn = {key: [values] for key, values in grouped.values().items() if np.isfinite(values).all()}
    for _ in range(permutations):
        values = grouped.values(torch.randperm(len(grouped.codes), generator=rng).numpy())
        for key, rows in drawn.items():
            rows.append(values[key])
    return {key: _permuted(key, np.stack(rows), tested) for key, rows in drawn.items()}


def _permuted(key: str, values: Numbers, tested: NDArray[np.bool_]) -> Deviation:
    """From the values `[1 + permutations, groups]`, of which the first are observed."""
    expected, spread = values.mean(axis=0), values.std(axis=0)
    varies = tested & (spread > 1e-12)
    scores = np.where(varies, (values - expected) / np.where(varies, spread, 1.0), 0.0)
    statistic = np.abs(scores).max(axis=1)
    # As in `noise_floor`: sums in different orders may differ by rounding.
    p_value = float(np.mean(statistic >= statistic[0] - 1e-9))
    return _deviation(values[0], expected, scores[0], tested, p_value, worse=-values[0] if key == "accuracy" else np.abs(values[0]))


def _deviation(
    observed: Numbers, expected: Numbers, scores: Numbers, tested: NDArray[np.bool_], p_value: float, worse: Numbers
) -> Deviation:
    """Of the group with the largest score. Of two groups, both deviate by as much: the worse one is named."""
    sizes = np.where(tested, np.abs(scores), 0.0)
    extreme = int(np.where(tested & (sizes >= sizes.max() - 1e-9), worse, -np.inf).argmax())
    return Deviation(extreme, float(observed[extreme]), float(expected[extreme]), float(scores[extreme]), p_value)


def exact_test(grouped: GroupedSamples, tested: NDArray[np.bool_]) -> Deviation:
    """The test of overconfidence by the mean and covariance of all permutations within strata, for a sum of many samples."""
    gap, groups = grouped.columns["gap"], len(grouped.sizes)
    count = np.bincount(grouped.strata * np.int64(groups) + grouped.codes, minlength=(grouped.strata[-1] + 1) * groups).reshape(-1, groups)
    size = np.maximum(count.sum(axis=1), 1)
    mean = np.bincount(grouped.strata, gap, len(size)) / size
    variance = np.bincount(grouped.strata, (gap - mean[grouped.strata]) ** 2, len(size)) / np.maximum(size - 1, 1)
    covariance = np.diag(variance @ count) - (count.T * (variance / size)) @ count
    observed, expected = np.bincount(grouped.codes, gap, groups), mean @ count
    within = covariance[np.ix_(tested, tested)]
    away = (observed - expected)[tested]
    p_value = chi_square_tail(away @ np.linalg.pinv(within, hermitian=True) @ away, int(np.linalg.matrix_rank(within, hermitian=True)))
    spread = np.sqrt(np.maximum(covariance.diagonal(), 0.0))
    scores = np.where(spread > 1e-9, (observed - expected) / np.where(spread > 1e-9, spread, 1.0), 0.0)
    means = observed / grouped.sizes
    return _deviation(means, expected / grouped.sizes, scores, tested, p_value, worse=np.abs(means))


def slope_test(slopes: Numbers, errors: Numbers) -> Deviation:
    """Cochran's Q of the slopes of groups with their standard errors; those without a slope have an infinite error."""
    weight = errors**-2.0
    mean = (weight * slopes).sum() / weight.sum()
    scores = (slopes - mean) / errors
    p_value = chi_square_tail((scores**2).sum(), int((weight > 0).sum()) - 1)
    return _deviation(slopes, np.full_like(slopes, mean), scores, weight > 0, p_value, worse=np.abs(slopes - 1))


def chi_square_tail(statistic: float, degrees: int) -> float:
    """Chance of a chi-square variable to be at least so large."""
    half = torch.tensor([degrees, max(statistic, 0.0)], dtype=torch.float64) / 2  # not from scipy.stats, whose import takes long
    return torch.special.gammaincc(*half).item() if degrees > 0 else 1.0
