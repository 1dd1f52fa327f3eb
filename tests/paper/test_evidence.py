"""What is said of claims, from numbers that are known."""

from collections.abc import Callable

import pytest

from rankmixup.experiments import Cell
from rankmixup.paper import EXPERIMENTS, find_scale
from rankmixup.paper.evidence import Evidence, weigh_claims
from rankmixup.paper.measure import Measurements

Numbers = Callable[[str, str, int, str, str], float]


class Known(Measurements):
    """Stands for measurements: a number for each row, column, seed, metric and stage."""

    def __init__(self, cells: dict[str, dict[tuple[str, str], Cell]], numbers: Numbers):
        self.places = {cell: place for filled in cells.values() for place, cell in filled.items()}
        self.numbers = numbers

    def values(self, cell: Cell, metric: str, stage: str = "plain") -> dict[int, float]:
        row, column = self.places[cell]
        return {run.seed: self.numbers(row, column, run.seed, metric, stage) for run in cell.runs}


def weighed(key: str, numbers: Numbers, seeds: int = 5) -> dict[int, Evidence]:
    experiment = EXPERIMENTS[key]
    cells = {key: experiment.cells(find_scale("quick"), seeds)}
    return {claim.number: claim for claim in weigh_claims([experiment], cells, Known(cells, numbers))}


def jitter(row: str, seed: int) -> float:
    """A little noise that differs between rows and seeds."""
    return 1e-3 * ((hash((len(row), ord(row[-1]), seed)) % 97) / 97)


LEVELS = {"mixup": 0.10, "regmixup": 0.11, "crl": 0.12, "rankmixup-mrl": 0.03, "rankmixup-mndcg": 0.05}


def as_the_paper(row: str, column: str, seed: int, metric: str, stage: str) -> float:
    return LEVELS.get(row, 0.2) * (0.5 if stage == "ece-grid" else 1) + jitter(row + stage, seed)


def test_claims_that_hold_and_one_that_was_not_run():
    found = weighed("table1", as_the_paper)
    assert sorted(found) == [1, 2, 3, 4, 5]
    assert [found[number].outcome for number in (2, 4, 5)] == ["holds"] * 3
    assert found[3].outcome == "not run"  # it is about Tiny-ImageNet, which this scale leaves empty
    assert found[3].p_value is None
    assert [each.direction.effect > 0 for each in found[2].findings] == [True] * 4


def test_one_part_the_wrong_way_is_enough():
    def numbers(row: str, column: str, seed: int, metric: str, stage: str) -> float:
        return 0.3 + jitter(row, seed) if row == "rankmixup-mrl" and stage == "plain" else as_the_paper(row, column, seed, metric, stage)

    found = weighed("table1", numbers)
    assert (found[2].outcome, found[4].outcome) == ("does not hold", "does not hold")
    assert found[2].p_value > 0.9
    assert found[2].p_against_holm < 0.05


@pytest.mark.parametrize("seeds", [1, 3, 4])
def test_fewer_than_five_pairs_cannot_tell_whatever_they_show(seeds):
    assert weighed("table1", as_the_paper, seeds)[2].outcome == "cannot tell"


def test_a_claim_is_as_weak_as_its_weakest_part_and_corrected_over_all_claims():
    found = weighed("table1", as_the_paper)
    assert found[2].p_value == max(each.direction.p_for for each in found[2].findings)
    tested = sorted(each.p_value for each in found.values() if each.p_value is not None)
    smallest = next(each for each in found.values() if each.p_value == tested[0])
    assert smallest.p_holm == pytest.approx(min(1, len(tested) * tested[0]))


def test_the_hypothesis_is_compared_with_zero_and_with_cross_entropy():
    def numbers(row: str, column: str, seed: int, metric: str, stage: str) -> float:
        return {"ce": 0.2, "rankmixup-mrl": 0.4, "rankmixup-mndcg": 0.3}.get(row, 0.0) + jitter(row, seed)

    claim = weighed("table1", numbers)[1]
    assert claim.outcome == "holds"
    assert len(claim.findings) == 8
    assert weighed("table1", lambda row, *rest: -numbers(row, *rest))[1].outcome == "does not hold"


def margin(row: str) -> int:
    return int(row[-1])


def test_orders_need_only_three_seeds():
    found = weighed("table5", lambda row, column, seed, metric, stage: margin(row) * (-1 if metric == "accuracy" else 1), 3)
    assert {number: claim.outcome for number, claim in found.items()} == {6: "holds", 7: "holds"}
    found = weighed("table5", lambda row, *rest: float(margin(row)), 3)
    assert {number: claim.outcome for number, claim in found.items()} == {6: "holds", 7: "does not hold"}


def test_over_and_underconfidence_go_opposite_ways():
    assert weighed("figure2", lambda row, c, s, metric, stage: margin(row) * {"ue": 1, "oe": -1}.get(metric, 0), 3)[8].outcome == "holds"
    assert weighed("figure2", lambda row, c, s, metric, stage: float(margin(row)), 3)[8].outcome == "does not hold"


def test_alpha_is_best_in_the_middle_and_harms_mixup_more():
    def numbers(row: str, column: str, seed: int, metric: str, stage: str) -> float:
        alpha = float(row.rpartition("=")[2])
        if row.startswith("mixup"):
            return 0.01 * alpha
        return 0.01 if 1 <= alpha <= 3 else 0.02

    claim = weighed("figure4", numbers, 3)[11]
    assert claim.outcome == "holds"
    assert [each.direction.blocks for each in claim.findings] == [3, 3]


def test_extreme_alpha_is_looked_at_from_both_ends():
    def numbers(row: str, column: str, seed: int, metric: str, stage: str) -> float:
        q, alpha = (float(part.rpartition("=")[2]) for part in row.split("/")[1:])
        return q if alpha < 0.3 or alpha > 4 else -q

    claim = weighed("supplement1", numbers, 2)[10]
    assert claim.outcome == "holds"
    assert [each.direction.blocks for each in claim.findings] == [4, 4]  # two seeds at two alphas


def test_columns_that_share_their_runs_count_once():
    experiment, scale = EXPERIMENTS["table4"], find_scale("paper")
    cells = {"table4": experiment.cells(scale, 5)}
    values = {"mixup": 0.8, "regmixup": 0.81, "rankmixup-mndcg": 0.9}
    known = Known(cells, lambda row, column, seed, metric, stage: values.get(row, 0.5) + jitter(row, seed) + 0.01 * len(column))
    (claim,) = weigh_claims([experiment], cells, known)
    assert claim.outcome == "holds"
    assert {each.direction.blocks for each in claim.findings} == {10}  # five seeds of two networks, each with three unknown sets
