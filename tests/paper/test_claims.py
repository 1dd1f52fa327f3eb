"""What the paper's own cells say about its claims; the failures were worked out by hand from the printed tables."""

from decimal import Decimal

import pytest

from rankmixup.paper.claims import CLAIMS, PrintedPair

NOT_PUBLISHED = {1, 7, 8, 10, 11}
# claim: comparisons in all, and those that fail as (table, column, row said to be smaller, its number, the other row, its number)
COUNTS = {
    2: (
        36,
        [
            ("table1", "cifar100/resnet101", "rankmixup-mrl", "4.41", "regmixup", "4.20"),
            ("table2", "imagenet/resnet50", "rankmixup-mrl", "5.70", "regmixup", "5.34"),
            ("table3", "tiny-imagenet/wrn-26-10", "rankmixup-mndcg", "3.83", "mixup", "3.77"),
        ],
    ),
    3: (4, [("table3", "tiny-imagenet/wrn-26-10", "rankmixup-mndcg", "3.83", "rankmixup-mrl", "3.30")]),
    4: (14, [("table1", "tiny-imagenet/resnet50", "rankmixup-mrl", "1.70", "crl", "1.65")]),
    5: (
        12,
        [
            ("table1", "tiny-imagenet/resnet50", "rankmixup-mrl/temperature", "1.70", "rankmixup-mrl", "1.70"),
            ("table1", "tiny-imagenet/resnet50", "rankmixup-mndcg/temperature", "1.49", "rankmixup-mndcg", "1.49"),
            ("table1", "tiny-imagenet/resnet101", "rankmixup-mndcg/temperature", "1.57", "rankmixup-mndcg", "1.57"),
        ],
    ),
    6: (12, [("table5", "tiny-imagenet/resnet50", "rankmixup-mrl/margin=2", "1.70", "rankmixup-mrl/margin=3", "1.54")]),
    9: (20, [("table6", "tiny-imagenet/resnet50", "rankmixup-mndcg/q=5", "1.52", "rankmixup-mndcg/q=4", "1.49")]),
    12: (4, []),
    13: (
        12,
        [
            ("table4", "cifar10/resnet50/cifar100", "regmixup", "87.82", "rankmixup-mndcg", "87.82"),
            ("table4", "cifar100/resnet50/tiny-imagenet", "mixup", "81.55", "rankmixup-mndcg", "80.67"),
            ("table4", "cifar100/resnet50/tiny-imagenet", "regmixup", "80.72", "rankmixup-mndcg", "80.67"),
        ],
    ),
    14: (
        28,
        [
            ("table8", "cifar10-lt-100/resnet32", "rankmixup-mndcg", "14.10", "unimix", "12.87"),
            ("table8", "cifar100-lt-10/resnet32", "rankmixup-mrl", "13.55", "rankmixup-mndcg", "9.99"),
        ],
    ),
}


def test_the_claims_are_numbered_from_1_to_14_and_each_is_counted_or_not_published():
    assert [claim.number for claim in CLAIMS] == list(range(1, 15))
    assert sorted(NOT_PUBLISHED | set(COUNTS)) == list(range(1, 15))


@pytest.mark.parametrize("number", COUNTS)
def test_what_holds_and_what_fails_on_the_published_cells(number):
    total, failing = COUNTS[number]
    count = CLAIMS[number - 1].count_published()
    found = [(c.table, c.column, c.smaller, str(c.smaller_value), c.larger, str(c.larger_value)) for c in count.failing]
    assert found == failing
    assert str(count) == f"{total - len(failing)} of {total} hold"


@pytest.mark.parametrize("number", sorted(NOT_PUBLISHED))
def test_claims_about_figures_and_text_are_not_published(number):
    assert str(CLAIMS[number - 1].count_published()) == "not published"


def test_equal_numbers_do_not_bear_a_claim_out():
    def comparison(smaller, larger):
        return PrintedPair("table1", "cifar10/resnet50", "ece", "rankmixup-mrl", Decimal(smaller), "crl", Decimal(larger))

    assert [comparison(*each).holds for each in (("1.0", "1.1"), ("1.1", "1.1"), ("1.2", "1.1"))] == [True, False, False]
    assert str(comparison("1.1", "1.1")) == "table1, cifar10/resnet50, ece: rankmixup-mrl 1.1 >= crl 1.1"


def test_no_comparison_is_counted_twice():
    for claim in CLAIMS:
        found = list(claim.printed_pairs())
        assert len(set(found)) == len(found), claim.number
