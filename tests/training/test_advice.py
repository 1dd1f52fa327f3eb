"""Rules on made-up histories: each speaks where it should, once, and not where chance or a normal course would do."""

import dataclasses

import pytest

from rankmixup.methods import CrossEntropy, RankMixupAuto, RankMixupMNDCG, RankMixupMRL
from rankmixup.random import stream
from rankmixup.runs.records import EpochRecord
from rankmixup.training.advice import advice
from tests.runs.records import epoch_record, metrics


def history(epochs: int, **values) -> list[EpochRecord]:
    """Records in which each figure is a number or a function of the epoch."""
    figures = {"ue": 0.02, "oe": 0.05, "nll": 0.5, "tau": 0.4, "active_hinges": 0.3} | values

    def at(key: str, epoch: int):
        value = figures[key]
        return value(epoch) if callable(value) else value

    return [
        EpochRecord.from_dict(
            epoch_record(
                epoch,
                val=metrics(**{key: at(key, epoch) for key in ("ue", "oe", "nll")}),
                ranking={key: at(key, epoch) for key in ("tau", "active_hinges")},
            ),
            "a record",
        )
        for epoch in range(1, epochs + 1)
    ]


def spoken(records: list[EpochRecord], method=None) -> list[tuple[int, str]]:
    """Every sentence of a whole run, with the epoch in which it was said."""
    method = method or RankMixupMRL()
    return [(end, sentence) for end in range(1, len(records) + 1) for sentence in advice(records[:end], method)]


def test_a_run_that_goes_well_hears_nothing():
    assert spoken(history(60, nll=lambda e: 2 / e, ue=lambda e: 0.1 / e, oe=lambda e: 0.001 * e, tau=lambda e: 0.1 + 0.005 * e)) == []
    rng = stream(0, "tests").initial_seed()
    noisy = history(60, ue=lambda e: 0.02 + 0.005 * ((e * rng) % 7) / 7, oe=lambda e: 0.05 - 0.005 * ((e * rng) % 5) / 5)
    assert spoken(noisy) == []


def test_underconfidence_that_rises_while_overconfidence_falls_is_named_once():
    said = spoken(history(40, ue=lambda e: 0.005 * e, oe=lambda e: 0.2 / e))
    assert [sentence for _, sentence in said] == [said[0][1]]
    assert said[0][0] >= 10
    assert "validation UE rises" in said[0][1]
    assert "OE falls: rankmixup-mrl makes the network underconfident; try a smaller margin or weight" in said[0][1]


def test_feedback_needs_no_advice_about_underconfidence():
    course = {"ue": lambda e: 0.005 * e, "oe": lambda e: 0.2 / e}
    assert spoken(history(40, **course), RankMixupAuto()) == []
    assert spoken(history(40, **course), RankMixupAuto(margin=1.0)) != []


@pytest.mark.parametrize(
    "course",
    [
        {"ue": lambda e: 0.005 * e, "oe": lambda e: 0.005 * e},  # both rise: an overfitted network
        {"ue": lambda e: 0.001 * e, "oe": lambda e: 0.02 / e},  # not more than chance may show
        {"ue": lambda e: 0.005 * e, "oe": lambda e: 0.9 - 0.001 * e},  # still overconfident
        {"ue": lambda e: 0.2 + 0.001 * e, "oe": lambda e: 0.1 - 0.001 * e},  # hardly rises
        {"ue": lambda e: 0.2 if e == 20 else 0.02, "oe": lambda e: 0.05},  # one odd epoch, OE constant
    ],
)
def test_underconfidence_is_not_named_without_all_its_signs(course):
    assert spoken(history(40, **course)) == []


def test_a_loss_that_explodes_is_named_in_the_second_epoch_that_shows_it():
    ((epoch, sentence),) = spoken(history(12, nll=lambda e: 2.0 if e == 1 else 0.5 if e < 8 else 9.0))
    assert epoch == 9
    assert sentence == "validation NLL is 9, but 2 after the first epoch and 0.5 at best; try a smaller lr"


def test_a_loss_that_jumps_once_or_rises_as_an_overfitted_networks_is_not():
    assert spoken(history(12, nll=lambda e: 9.0 if e == 8 else 0.5)) == []
    assert spoken(history(50, nll=lambda e: 2.0 if e == 1 else 0.2 + 0.03 * e)) == []


def test_confidence_against_lambda_is_named_for_methods_that_order_mixes():
    records = history(9, tau=lambda e: 0.3 if e < 3 else -0.1)
    ((epoch, sentence),) = spoken(records, RankMixupMNDCG())
    assert epoch == 7
    assert "confidence has not followed lambda for 5 epochs (Kendall tau -0.10): the ranking loss of rankmixup-mndcg" in sentence
    assert spoken(records, CrossEntropy()) == []
    assert spoken(history(9, tau=lambda e: -0.1 if e % 5 else 0.1), RankMixupMNDCG()) == []
    assert spoken(history(9, tau=None), RankMixupMNDCG()) == []


def test_a_margin_that_no_mix_ever_keeps_is_named():
    ((epoch, sentence),) = spoken(history(20, active_hinges=1.0))
    assert epoch == 5
    assert "no mix has kept the margin of rankmixup-mrl for 5 epochs" in sentence
    assert spoken(history(20, active_hinges=0.999)) == []
    assert spoken(history(20, active_hinges=None)) == []


def test_records_from_before_there_were_diagnostics_are_understood():
    records = [dataclasses.replace(record, ranking={}) for record in history(12)]
    assert spoken(records) == []
