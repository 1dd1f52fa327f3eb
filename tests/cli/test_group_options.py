"""`rankmixup evaluate --group` in all its forms."""

import csv
import json

import numpy as np
import pytest

import rankmixup as rm
from rankmixup.cli.main import main

RNG = np.random.Generator(np.random.Philox(0))
LOGITS = 2 * RNG.normal(size=(60, 3))
LABELS = RNG.integers(3, size=60)
SITE = np.array(["a", "b", ""])[np.arange(60) % 3]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    np.savez(tmp_path / "test.npz", logits=LOGITS, labels=LABELS, site=SITE, scanner=np.zeros((60, 2)))
    np.savez(tmp_path / "val.npz", logits=LOGITS[::-1] / 2, labels=LABELS[::-1])
    (tmp_path / "site.txt").write_text("\n".join(SITE) + "\n")
    (tmp_path / "meta.csv").write_text("id,site\n" + "".join(f"{row},{site}\n" for row, site in enumerate(SITE)))
    rows = [
        ",".join(map(repr, row.tolist())) + f",{label},{ward}" for row, label, ward in zip(LOGITS, LABELS, np.arange(60) % 2, strict=True)
    ]
    (tmp_path / "test.csv").write_text("cat,dog,bird,label,ward\n" + "\n".join(rows) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(capsys, *arguments: str) -> dict:
    assert main(["evaluate", *arguments, "--replicates", "20", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_columns_and_files_give_what_python_gives(folder, capsys):
    found = told(capsys, "test.npz", "--group", "site", "--group", "text=site.txt", "--group", "csv=meta.csv:site")
    expected = rm.evaluate(LOGITS, LABELS, groups={"site": SITE, "text": SITE, "csv": SITE}, replicates=20).to_dict()
    assert found["groups"] == json.loads(json.dumps(expected["groups"]))
    assert found["classes"] == json.loads(json.dumps(expected["classes"]))
    assert list(found["groups"]["site"]["before"]["groups"]) == ["a", "b", "(missing)"]


def test_a_column_of_groups_is_no_class(folder, capsys):
    found = told(capsys, "test.csv", "--from", "logits", "--group", "ward")
    assert found["num_classes"] == 3
    assert {name: each["n"] for name, each in found["groups"]["ward"]["before"]["groups"].items()} == {"0": 30, "1": 30}


def test_tables_of_groups_and_classes(folder, capsys):
    outputs = ["--group-csv", "groups.csv", "--class-csv", "classes.csv", "--html", "report.html"]
    found = told(capsys, "test.npz", "--calibrate-on", "val.npz", "--group", "site", *outputs)
    with (folder / "groups.csv").open() as file:
        rows = list(csv.DictReader(file))
    (row,) = [each for each in rows if (each["group"], each["stage"], each["metric"]) == ("b", "after", "ece")]
    assert float(row["high"]) == found["groups"]["site"]["after"]["groups"]["b"]["metrics"]["ece"]["high"]
    with (folder / "classes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["class"], row["stage"]) for row in rows] == [(str(each), stage) for each in range(3) for stage in ("before", "after")]
    assert float(rows[1]["nll"]) == found["classes"][0]["after"]["nll"]
    page = (folder / "report.html").read_text()
    assert 'id="groups"' in page
    assert "After calibration:" in page
    assert "Groups by site" in page
    assert "Do groups by site differ?" in page


def test_a_report_of_two_models_shows_the_groups_of_each(folder, capsys):
    np.savez(folder / "other.npz", logits=LOGITS[:, ::-1], labels=LABELS)
    assert main(["report", "test.npz", "other.npz", "--group", "site.txt", "--replicates", "20", "-o", "both.html"]) == 0
    assert main(["report", "test.npz", "--group", "site.txt", "--replicates", "20", "-o", "one.html"]) == 0
    one, both = ((folder / name).read_text().count("Do groups by site differ?") for name in ("one.html", "both.html"))
    assert both == 2 * one > 0
    assert main(["report", "test.npz", "other.npz", "--group", "site", "-o", "never.html"]) == 2
    assert "unknown array 'site'" in capsys.readouterr().err
    assert not (folder / "never.html").exists()
    assert main(["report", "test.npz", "--group", "site.txt", "-o", "site.txt"]) == 2
    assert "must be a new file" in capsys.readouterr().err


def test_a_condition_on_groups_fails(folder, capsys):
    assert main(["evaluate", "test.npz", "--group", "site", "--replicates", "20", "--fail-if", "groups.site.accuracy<90%"]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "failed: groups.site.accuracy<90%" in shown
    assert "groups by site" in shown
    assert "no difference between groups shown" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--group", "sit"], "unknown array 'sit'; did you mean 'site'"),
        (["--group", "missing.csv"], "--group must be a file that exists or a column of the file of scores, got 'missing.csv'"),
        (["--group", "folder/x"], "must be a file that exists"),
        (["--group", "meta.csv"], "FILE:COLUMN must name it"),
        (["--group", "."], "it is a folder"),
        (["--group", "scanner"], "must have shape [N], got [60, 2]"),
        (["--group", "val.npz:labels", "--group", "test.npz:labels"], "got 'labels' twice"),
        (["--group", "="], "optionally with NAME= before it"),
        (["--group", "x="], "--group must be FILE or COLUMN, optionally with NAME= before it, got 'x='"),
        (["--group", "x=meta.csv:"], "--group must be FILE or COLUMN, optionally with NAME= before it, got 'x=meta.csv:'"),
        (["--group-csv", "out.csv"], "--group-csv must go with --group"),
        (["--group", "site", "--group-csv", "nowhere/out.csv"], "must be in a folder that exists"),
    ],
)
def test_what_is_refused_is_one_sentence(arguments, message, folder, capsys):
    before = sorted(folder.iterdir())
    assert main(["evaluate", "test.npz", "--replicates", "5", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert sorted(folder.iterdir()) == before


def test_a_file_of_the_wrong_length_is_refused(folder, capsys):
    (folder / "short.txt").write_text("a\n")
    assert main(["evaluate", "test.npz", "--group", "short.txt"]) == 2
    assert "groups 'short' must have one value for each of 60 samples, got 1" in capsys.readouterr().err


@pytest.mark.parametrize("calibration", [[], ["--calibrate-on", "val.npz"]], ids=["", "calibrated"])
def test_markdown_has_a_narrow_table_of_the_groups(folder, capsys, calibration):
    found = told(capsys, "test.npz", "--group", "site", *calibration, "--markdown", "report.md")["groups"]["site"]
    lines = (folder / "report.md").read_text().splitlines()
    start = lines.index("**Groups by site**") + 2
    assert lines[start].count("|") - 1 == (6 if calibration else 5)
    ece = found["before"]["groups"]["b"]["metrics"]["ece"]
    (row,) = [line for line in lines[start:] if line.startswith("| b | 20 |")]
    assert f" {100 * ece['value']:.2f} ({100 * ece['low']:.2f} to {100 * ece['high']:.2f}) " in row
    shown = [key for key, gap in found["before"]["gaps"].items() if gap["verdict"] == "groups differ"]
    assert sum("groups differ" in line for line in lines if not line.startswith("- after")) == len(shown)
    assert any("no difference between groups shown in" in line for line in lines)
