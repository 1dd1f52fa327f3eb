"""Cells beside the published numbers."""

import json
from decimal import Decimal
from math import sqrt

import pytest

from rankmixup.evaluation import Estimate, NoiseFloor
from rankmixup.paper import EXPERIMENTS, find_scale
from rankmixup.paper.scorecard import Scorecard, scorecard
from rankmixup.paper.verdict import judge, over_runs
from tests.paper.stored import store

QUICK = find_scale("quick")
PARTS = [EXPERIMENTS["table5"].part(["rankmixup-mrl/margin=1", "rankmixup-mrl/margin=3"]), EXPERIMENTS["table4"].part(["ce", "mixup"])]


@pytest.fixture(scope="module")
def card(tmp_path_factory) -> Scorecard:
    """Table 5 with two of three seeds, more confident with every margin, and table 4's first column with one."""
    runs = tmp_path_factory.mktemp("runs")
    for part, seeds in zip(PARTS, (2, 1), strict=True):
        for position, cell in enumerate(part.cells(QUICK, seeds).values()):
            for run in cell.runs:
                store(runs, run, 1.5 + 0.5 * position, unknown=cell.unknown)
    return scorecard(PARTS, QUICK, runs, 3, replicates=40)


def score(card: Scorecard, experiment: str, row: str, column: str, metric: str):
    (found,) = (each for each in card.of(experiment) if (each.row, each.column, each.metric) == (row, column, metric))
    return found


def test_a_cell_has_ours_beside_the_papers(card):
    found = score(card, "table5", "rankmixup-mrl/margin=1", "cifar10/resnet50", "ece")
    assert (found.paper, found.paper_after) == (pytest.approx(0.0154), pytest.approx(0.0109))
    assert (len(found.ours.seeds), found.seeds_wanted) == (2, 3)
    assert found.ours.low <= found.ours.value <= found.ours.high
    assert set(found.after) == {"ece-grid", "nll"}
    assert (found.verdict, found.verdict_after) == ("other scale", "other scale")
    assert found.stands_for_column == "digits resnet8"
    assert any("MRL" in note for note in found.notes)


def test_a_column_that_the_scale_leaves_empty_is_not_run(card):
    found = score(card, "table5", "rankmixup-mrl/margin=1", "tiny-imagenet/resnet50", "ece")
    assert (found.ours, found.after, found.seeds_wanted, found.verdict) == (None, {}, 0, "not run")
    assert found.paper == pytest.approx(0.0149)


def test_cross_entropy_in_table_4_is_printed_after_temperature_scaling(card):
    found = score(card, "table4", "ce", "cifar10/resnet50/cifar100", "auroc")
    assert (found.paper, found.paper_after) == (None, pytest.approx(0.8673))
    assert found.ours.value != found.after["ece-grid"].value


def test_cost_and_claims_are_those_of_what_was_asked_for(card):
    assert (card.runs_wanted, card.runs_done) == (2 * 3 + 2 * 3, 2 * 2 + 2 * 1)
    assert card.seconds == 36.0 * card.runs_done
    assert [claim.number for claim in card.claims] == [6, 7, 13]


def test_it_survives_json(card):
    assert Scorecard.from_dict(json.loads(json.dumps(card.to_dict(), allow_nan=False))) == card


def test_the_interval_is_over_seeds_and_samples():
    values = [Estimate(0.10, 0.08, 0.13, NoiseFloor(0.01, 0, 1, 0)), Estimate(0.12, 0.10, 0.15, NoiseFloor(0.03, 0, 1, 0))]
    found = over_runs(values)
    between = 12.7062 * 0.0141421356 / sqrt(2)  # Student's t with one degree of freedom
    assert found.value == pytest.approx(0.11)
    assert found.high == pytest.approx(0.11 + sqrt(between**2 + 0.03**2), rel=1e-4)
    assert found.low == 0  # an error is never negative
    assert found.floor == pytest.approx(0.02)
    alone = over_runs([Estimate(0.10)])
    assert (alone.low, alone.high, alone.floor) == (None, None, None)


@pytest.mark.parametrize(
    ("printed", "seeds", "metric", "expected"),
    [
        ("1.00", [0.010, 0.011, 0.009, 0.010, 0.010], "ece", "agrees"),
        ("2.00", [0.010, 0.011, 0.009, 0.010, 0.010], "ece", "differs"),
        ("1.00", [0.010, 0.018, 0.003, 0.012, 0.008], "ece", "cannot tell"),  # anything would agree
        ("1.00", [0.010, 0.010], "ece", "cannot tell"),
        ("95.00", [0.950, 0.951, 0.949, 0.950, 0.950], "accuracy", "agrees"),
        ("95.00", [0.950, 0.990, 0.910, 0.960, 0.940], "accuracy", "cannot tell"),
        ("94.0", [0.950, 0.951, 0.949, 0.950, 0.950], "accuracy", "differs"),
        ("1.0", [0.0104, 0.0104, 0.0104], "ece", "agrees"),  # all that is printed is one decimal
        ("1.00", [0.0104, 0.0104, 0.0104], "ece", "differs"),
    ],
)
def test_verdicts(printed, seeds, metric, expected):
    assert judge(Decimal(printed), seeds, metric) == expected


def test_only_the_papers_scale_is_compared_and_a_misprint_never(tmp_path):
    paper, part = find_scale("paper"), EXPERIMENTS["table1"].part(["mmce"], ["cifar10/resnet101"])
    for run in part.cells(paper, 3)["mmce", "cifar10/resnet101"].runs:
        store(tmp_path, run, 3.0)
    found = scorecard([part], paper, tmp_path, 3, replicates=40)
    ece, aece = (score(found, "table1", "mmce", "cifar10/resnet101", metric) for metric in ("ece", "aece"))
    assert ece.verdict == "differs"
    assert aece.verdict_after == "cannot tell"
    assert aece.notes[0].startswith("misprint")
