"""The tournament: its runs, the criterion, and what it writes."""

import dataclasses
import functools
import json

import pytest

import rankmixup as rm
from rankmixup.cli.main import main
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import Estimate
from rankmixup.experiments.costs import step_costs
from rankmixup.experiments.tournament import ABLATION, COLUMNS, LABELS, ROWS, Standing, Tournament, cells_of, chosen_columns, tournament
from rankmixup.methods import CrossEntropy, Method, RankMixupMNDCG
from rankmixup.mixers import Mixup
from rankmixup.reports.tables import to_text
from rankmixup.reports.tournament import (
    add_to_tournament,
    column_table,
    read_tournament,
    summary_table,
    tournament_page,
    tournament_view,
    write_tournament,
)
from rankmixup.training import Watcher


def test_every_method_takes_part_and_every_row_is_a_run():
    assert {row.partition("/")[0] for row in ROWS} == set(Method.registry)
    assert {row for column in COLUMNS.values() for row in column.rows} == set(ROWS)
    for column in COLUMNS.values():
        runs = [column.run(row, 0) for row in dict.fromkeys((*column.rows, *LABELS))]
        assert len({run.id for run in runs}) == len(runs)
    changed = COLUMNS["digits"].run("rankmixup-auto/mixer=mixup", 1)
    assert (changed.method.mixer, changed.seed, changed.selection) == (Mixup(alpha=2.0), 1, "last")
    assert COLUMNS["digits"].run("rankmixup-auto/margin=0", 0).method.margin == 0.0
    assert COLUMNS["digits"].run("focal/gamma=auto", 0).method.gamma == "auto"


def test_columns_without_data_are_left_out_and_named(tmp_path):
    found, absent = chosen_columns([], tmp_path)
    assert [column.key for column in found] == ["digits"]
    assert len(absent) == len(COLUMNS) - 1
    with pytest.raises(InvalidInput, match="unknown column of the tournament 'digts'; did you mean 'digits'"):
        chosen_columns(["digts"], tmp_path)
    with pytest.raises(InvalidInput, match="unknown row of the tournament 'rankmixup'"):
        cells_of(found[0], ["rankmixup"], 1)


@pytest.mark.parametrize(
    ("ece", "accuracy", "answer"),
    [
        ((-0.01, 0.009), (-0.009, 0.02), "yes"),
        ((-0.01, 0.011), (-0.009, 0.02), "open"),
        ((-0.01, 0.009), (-0.011, 0.02), "open"),
        ((0.011, 0.02), (-0.009, 0.02), "no"),
        ((-0.01, 0.009), (-0.03, -0.011), "no"),
    ],
)
def test_the_criterion(ece, accuracy, answer):
    """At most 1 point of ECE above, at most 1 point of accuracy below, by the ends of the intervals."""
    estimates = (Estimate(sum(ends) / 2, *ends) for ends in (ece, accuracy))
    assert Standing("x", "digits", 5, {}, {}, *estimates).calibrates == answer
    assert Standing("x", "digits", 1, {}, {}, Estimate(0.0), Estimate(0.0)).calibrates is None


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> Tournament:
    """Three seeds of two methods for one epoch."""
    runs = tmp_path_factory.mktemp("runs")
    column = dataclasses.replace(COLUMNS["digits"], optimisation={"epochs": 1, "milestones": ()})
    cells = cells_of(column, ["rankmixup-auto"], 3)
    for cell in cells.values():
        quiet = Watcher()
        quiet.warn = lambda message: None  # of a dial that does not act in one epoch
        for run in cell.runs[: 3 if cell.runs[0].method.name == "ce" else 2]:
            rm.train(run, runs=runs, watcher=quiet)
    return tournament(cells, runs, {"ce": 1.0, "rankmixup-auto": 1.02})


def test_differences_are_paired_by_seed(found):
    base, ours = found.standings
    assert (base.seeds, ours.seeds, found.runs) == (3, 2, 5)
    assert base.accuracy_above.value == 0
    assert base.ece_above.value == pytest.approx(base.plain["ece"].value - base.after["ece"].value)
    assert len(ours.gaps) == 2
    assert ours.nll_above.low < ours.nll_above.value < ours.nll_above.high


def test_it_is_written_and_read(found, tmp_path):
    written = write_tournament(found, tmp_path)
    assert all(path.stat().st_size > 0 for path in written)
    assert read_tournament(tmp_path) == found
    other = Tournament({"cifar10": "CIFAR10"}, (dataclasses.replace(found.standings[0], column="cifar10"),), {"ce": 1.0})
    add_to_tournament(other, tmp_path)
    merged = read_tournament(tmp_path)
    assert list(merged.columns) == ["digits", "cifar10"]
    assert merged.standings == (*found.standings, *other.standings)
    assert merged.runs == found.runs + 3
    add_to_tournament(found, tmp_path)
    assert read_tournament(tmp_path) == merged
    again = dataclasses.replace(found.standings[1], seeds=1)  # a row that is trained again, and one that is not
    add_to_tournament(Tournament(found.columns, (dataclasses.replace(found.standings[0], seeds=0), again), {}), tmp_path)
    assert read_tournament(tmp_path).standings == (found.standings[0], again, *other.standings)
    (tmp_path / "tournament.json").write_text('{"schema": 2}')
    with pytest.raises(InvalidInput, match="must be a tournament of schema 1"):
        read_tournament(tmp_path)


def test_tables_and_page(found):
    assert [row[0] for row in summary_table(found).rows] == ["CE", "RankMixup auto (ours)"]
    assert len(column_table(found, "digits").rows) == 2
    page = tournament_page(found, {"Ablation": found}, "figures", "command", "What to use.")
    for part in ("# The tournament", "What to use.", "## Ablation: digits", "Chosen by cross-entropy alone: noise 0.9"):
        assert part in page
    text = to_text(tournament_view(found), width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "RankMixup auto (ours)" in text
    assert "alone" in text


def test_costs_are_ratios_of_steps_that_take_turns():
    costs = step_costs({"ce": CrossEntropy(), "mndcg": RankMixupMNDCG()}, "ce", repeats=3)
    assert costs["ce"] == 1.0
    assert costs["mndcg"] > 1.5  # four times the samples


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("RANKMIXUP_DATA", str(tmp_path))
    monkeypatch.setattr("rankmixup.experiments.costs.step_costs", functools.partial(step_costs, repeats=1))
    common = ["--runs", str(tmp_path / "runs"), "--json"]
    assert main(["reproduce", "tournament", "--scale", "cpu", "--dry-run", "--rows", "mixup", *common]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["runs"] == 10
    assert "Left out, because their data was not found (--data-root): Fashion-MNIST" in " ".join(captured.err.split())
    assert main(["reproduce", "ablation", "--scale", "quick", "--no-train", *common]) == 0
    assert len(json.loads(capsys.readouterr().out)["ablation"]["standings"]) == 2 + len(ABLATION)
    assert main(["reproduce", "tournament", *common]) == 2
    assert "tournament must be at scale cpu, or quick" in capsys.readouterr().err
    assert main(["reproduce", "tournament", "table1", "--scale", "quick", *common]) == 2
    assert "tournament must be reproduced alone" in capsys.readouterr().err
