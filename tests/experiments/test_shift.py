"""The study of shift: the tournament's own runs, columns beside stored ones, the page and the command."""

import json

import pytest

import rankmixup as rm
from rankmixup.cli.main import main
from rankmixup.experiments.shift import QUICK_COLUMNS, SHIFT_COLUMNS, SHIFT_ROWS, ShiftStudy, shift_study
from rankmixup.experiments.tournament import COLUMNS, cells_of
from rankmixup.reports.shift_study import add_to_study, read_study, study_page


def test_its_rows_and_columns_are_the_tournaments():
    for column in (*SHIFT_COLUMNS, *QUICK_COLUMNS):
        assert set(SHIFT_ROWS) <= set(COLUMNS[column].rows)
        assert len(cells_of(COLUMNS[column], SHIFT_ROWS, 5)) == 7


@pytest.mark.slow
def test_runs_become_a_study_that_is_written_and_read(tmp_path, monkeypatch, capsys):
    column = COLUMNS["digits"]
    optimisation = rm.Optimisation(epochs=1, batch_size=64, milestones=())

    def run(self, row, seed):
        return rm.Run(row, data=self.data, model="mlp", optimisation=optimisation, seed=seed, selection="last")

    monkeypatch.setattr(type(column), "run", run)
    cells = cells_of(column, ["ce", "mixup"], 2)
    for cell in cells.values():
        for each in cell.runs:
            rm.train(each, runs=tmp_path / "runs")
    study = shift_study(cells, tmp_path / "runs", None, limit=50, replicates=20, severities=[1, 5])
    assert study.runs == 4
    assert str(tmp_path) not in json.dumps(study.to_dict()), "runs are named by their ids, not by where they were"
    assert list(study.columns["digits"].methods) == ["CE", "Mixup"]
    assert ShiftStudy.from_dict(json.loads(json.dumps(study.to_dict()))).to_dict() == study.to_dict()
    add_to_study(study, tmp_path)
    add_to_study(ShiftStudy({"cifar10": study.columns["digits"]}), tmp_path)
    both = read_study(tmp_path)
    assert list(both.columns) == ["digits", "cifar10"]
    assert (tmp_path / "shift.csv").read_text().startswith("data set,method,severity")
    assert (tmp_path / "figures" / "shift-digits.png").exists()
    page = study_page(both, "figures", "a command")
    assert "## CIFAR10\n" in page
    assert "Orders that turn round under shift" in page
    assert "| Mixup |" in page
    asked = ["reproduce", "shift", "--scale", "quick", "--rows", "mixup", "--runs", str(tmp_path / "runs"), "--no-train", "--json"]
    assert main(asked) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["shift"]["columns"]["digits"]["methods"]) == ["CE", "Mixup"]


def test_the_command_refuses_the_papers_scale_and_counts_runs(capsys):
    assert main(["reproduce", "shift"]) == 2
    assert "shift must be at scale cpu, or quick" in capsys.readouterr().err
    assert main(["reproduce", "shift", "--scale", "quick", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 14
