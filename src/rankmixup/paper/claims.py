"""The paper's claims of direction: how each is tested on runs, and how it counts on the cells that the paper itself prints.

A claim about figures alone has nothing to count: the paper prints none of their values. Calibration is compared by ECE, which every
table of calibration prints, and before temperature scaling unless the claim is about that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations, product

from rankmixup.paper.figures import ALPHAS
from rankmixup.paper.published import PUBLISHED_TABLES, published

__all__ = ["AFTER_TS", "CLAIMS", "Claim", "Comparison", "Count", "Pair", "Trend"]

AFTER_TS = "/temperature"
"""Behind the key of a row: its number after temperature scaling."""


@dataclass(frozen=True)
class Comparison:
    """Two printed numbers of one column, of which a claim says that the first is smaller."""

    table: str
    column: str
    metric: str
    smaller: str
    """Row that the claim says has the smaller number."""
    smaller_value: Decimal
    larger: str
    larger_value: Decimal

    @property
    def holds(self) -> bool:
        """Whether the numbers agree with the claim; equal ones do not."""
        return self.smaller_value < self.larger_value

    def __str__(self) -> str:
        relation = "<" if self.holds else ">="
        numbers = f"{self.smaller} {self.smaller_value} {relation} {self.larger} {self.larger_value}"
        return f"{self.table}, {self.column}, {self.metric}: {numbers}"


@dataclass(frozen=True)
class Count:
    """How the comparisons of a claim come out."""

    holding: tuple[Comparison, ...]
    failing: tuple[Comparison, ...]

    def __str__(self) -> str:
        total = len(self.holding) + len(self.failing)
        return f"{len(self.holding)} of {total} hold" if total else "not published"


@dataclass(frozen=True)
class Pair:
    """Two rows, of which a claim says that the first has the smaller number in every column."""

    experiments: tuple[str, ...]
    smaller: str
    """Empty stands for 0."""
    larger: str
    metric: str = "ece"
    data: tuple[str, ...] = ("",)

    def __str__(self) -> str:
        return f"{self.metric}: {self.smaller or '0'} < {self.larger}"


@dataclass(frozen=True)
class Trend:
    """Settings along which a claim says that a number rises."""

    experiments: tuple[str, ...]
    name: str
    lines: tuple[tuple[str, ...], ...]
    """Rows of each line of settings."""
    order: tuple[int, ...]
    """Place of each setting in the claimed order, the one with the lowest number first; those of one place are not compared."""
    metric: str = "ece"
    less: tuple[str, ...] = ()
    """Rows whose numbers are taken off those of a line."""

    def __str__(self) -> str:
        return f"{self.metric}: {self.name}"


@dataclass(frozen=True)
class Claim:
    """What the paper says, where, and which rows it compares."""

    number: int
    sentence: str
    sources: tuple[str, ...]
    """Tables, figures and passages that it is read from."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Rows of its tables, the one with the smaller number first."""
    metric: str = "ece"
    data: tuple[str, ...] = ("",)
    """How the columns begin that it is about; all of them unless said."""
    trends: tuple[Pair | Trend, ...] = ()
    """How it is tested on runs, where that is not by its pairs."""

    @property
    def tests(self) -> tuple[Pair | Trend, ...]:
        """Everything that must come out as it says."""
        return self.trends or tuple(Pair(self.sources, *pair, self.metric, self.data) for pair in self.pairs)

    def comparisons(self) -> Iterator[Comparison]:
        """Its pairs in every column of its tables; nothing where the paper prints no numbers."""
        for table in (source for source in self.sources if source in PUBLISHED_TABLES):
            values = _values(table, self.metric)
            for column in dict.fromkeys(column for _, column in values if column.startswith(self.data)):
                for smaller, larger in self.pairs:
                    yield Comparison(table, column, self.metric, smaller, values[smaller, column], larger, values[larger, column])

    def count_published(self) -> Count:
        """Count how many comparisons of printed numbers bear it out.

        >>> count = CLAIMS[1].count_published()
        >>> print(count, *count.failing, sep="; ")  # doctest: +ELLIPSIS
        33 of 36 hold; ...; table3, tiny-imagenet/wrn-26-10, ece: rankmixup-mndcg 3.83 >= mixup 3.77
        """
        found = tuple(self.comparisons())
        return Count(tuple(each for each in found if each.holds), tuple(each for each in found if not each.holds))


def _values(table: str, metric: str) -> dict[tuple[str, str], Decimal]:
    values = {}
    for cell in published(table):
        if cell.metric == metric:
            values[cell.row, cell.column] = cell.value
            if cell.after_ts is not None:
                values[cell.row + AFTER_TS, cell.column] = cell.after_ts
    return values


_OURS = ("rankmixup-mrl", "rankmixup-mndcg")
_SMALL_MARGINS, _LARGE_MARGINS = ([f"rankmixup-mrl/margin={margin}" for margin in margins] for margins in ((1, 2), (3, 4, 5)))
_MARGINS = (*_SMALL_MARGINS, *_LARGE_MARGINS)
_FALLING_Q = tuple(f"rankmixup-mndcg/q={q}" for q in (6, 5, 4, 3, 2))
_RISING = (0, 1, 2, 3, 4)


def _hypothesis(metric: str) -> Iterator[Pair]:
    """For both losses above 0, and above that of cross-entropy."""
    for row, other in product(_OURS, ("", "ce")):
        yield Pair(("table1",), other, row, metric)


def _by_q_at(*alphas: float) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(f"{row}/alpha={alpha:g}" for row in reversed(_FALLING_Q)) for alpha in alphas)


def _by_alpha(method: str) -> tuple[str, ...]:
    return tuple(f"{method}/alpha={alpha:g}" for alpha in ALPHAS)


CLAIMS = (
    Claim(
        1,
        "Confidence falls with lambda and is higher for raw than for mixed samples, more so than under cross-entropy.",
        ("equations 7 to 9",),
        trends=(*_hypothesis("lambda_correlation"), *_hypothesis("raw_minus_mixed")),
    ),
    Claim(
        2,
        "MRL and M-NDCG have a lower ECE than Mixup and RegMixup.",
        ("table1", "table2", "table3"),
        tuple(product(_OURS, ("mixup", "regmixup"))),
    ),
    Claim(
        3,
        "M-NDCG has a lower ECE than MRL on harder data, Tiny-ImageNet and ImageNet.",
        ("table1", "table2", "table3"),
        (("rankmixup-mndcg", "rankmixup-mrl"),),
        data=("tiny-imagenet/", "imagenet/"),
    ),
    Claim(4, "MRL and M-NDCG have a lower ECE than CRL.", ("table1", "table2"), tuple(product(_OURS, ("crl",)))),
    Claim(
        5,
        "Temperature scaling lowers the ECE of MRL and M-NDCG further.",
        ("table1",),
        tuple((row + AFTER_TS, row) for row in _OURS),
    ),
    Claim(
        6,
        "Small margins, 1 and 2, which the paper trains with, give MRL a lower ECE than larger ones.",
        ("table5",),
        tuple(product(_SMALL_MARGINS, _LARGE_MARGINS)),
        trends=(Trend(("table5",), "higher from margin 3 on", (_MARGINS,), (0, 0, 1, 1, 1)),),
    ),
    Claim(
        7,
        "Accuracy falls as the margin of MRL grows.",
        ("section 4.3",),
        trends=(Trend(("table5",), "falls with the margin", (_MARGINS[::-1],), _RISING, "accuracy"),),
    ),
    Claim(
        8,
        "UE rises and OE falls as the margin of MRL grows.",
        ("figure2",),
        trends=(
            Trend(("figure2",), "rises with the margin", (_MARGINS,), _RISING, "ue"),
            Trend(("figure2",), "falls with the margin", (_MARGINS[::-1],), _RISING, "oe"),
        ),
    ),
    Claim(
        9,
        "The ECE of M-NDCG falls as Q, the number of samples that it ranks, grows.",
        ("table6", "supplement1", "supplement2"),
        tuple(combinations(_FALLING_Q, 2)),
        trends=(Trend(("table6",), "falls with Q", (_FALLING_Q,), _RISING),),
    ),
    Claim(
        10,
        "At very small or large alpha the ECE of M-NDCG rises as Q grows.",
        ("supplement1", "supplement2"),
        trends=(
            Trend(("supplement1", "supplement2"), "rises with Q at alpha 0.1 and 0.2", _by_q_at(0.1, 0.2), _RISING),
            Trend(("supplement1", "supplement2"), "rises with Q at alpha 5 and 10", _by_q_at(5.0, 10.0), _RISING),
        ),
    ),
    Claim(
        11,
        "Alpha from 1 to 3 is best for M-NDCG, and a large alpha hurts it less than it hurts Mixup.",
        ("figure4", "supplement1", "supplement2"),
        trends=(
            Trend(
                ("figure4",),
                "lower at alpha from 1 to 3",
                (_by_alpha("rankmixup-mndcg"),),
                tuple(int(not 1 <= alpha <= 3) for alpha in ALPHAS),
            ),
            Trend(
                ("figure4",),
                "that of mixup, less that of M-NDCG, rises with alpha",
                (_by_alpha("mixup"),),
                tuple(range(len(ALPHAS))),
                less=_by_alpha("rankmixup-mndcg"),
            ),
        ),
    ),
    Claim(
        12,
        "With CutMix or manifold mixup, M-NDCG has a lower ECE than RegMixup with the same.",
        ("table7",),
        tuple((f"rankmixup-mndcg/{mixer}", f"regmixup/{mixer}") for mixer in ("cutmix", "manifold")),
    ),
    Claim(
        13,
        "M-NDCG detects OOD samples with a higher AUROC than Mixup and RegMixup.",
        ("table4",),
        (("mixup", "rankmixup-mndcg"), ("regmixup", "rankmixup-mndcg")),
        metric="auroc",
    ),
    Claim(
        14,
        "On long-tailed data MRL and M-NDCG have a lower ECE than Mixup, Remix and UniMix, and MRL has a lower one than M-NDCG.",
        ("table8",),
        (*product(_OURS, ("mixup", "remix", "unimix")), _OURS),
    ),
)
