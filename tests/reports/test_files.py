import json

import pytest
import torch

import rankmixup as rm
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import Evaluation
from rankmixup.evaluation.registry import METRICS


@pytest.fixture
def report(rng):
    logits = torch.randn(80, 6, generator=rng, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
    return rm.evaluate(
        2 * logits, labels, calibrate_on=(logits[:40], labels[:40]), ood={"far": logits[:9] / 9}, replicates=20, source="mine & yours.npz"
    )


def test_the_suffix_says_what_is_written(report, tmp_path):
    paths = {suffix: report.save(tmp_path / f"report.{suffix}") for suffix in ("html", "json", "csv", "tex", "md")}
    assert all(path.name == f"report.{suffix}" for suffix, path in paths.items())
    text = {suffix: path.read_text() for suffix, path in paths.items()}
    assert json.loads(text["json"]) == report.to_dict()
    assert text["html"].lower().startswith("<!doctype html>")
    assert "mine &amp; yours.npz" in text["html"]
    assert text["tex"].startswith("\\begin{table}\n\\centering\n\\caption{mine \\& yours.npz: 80 samples, 6 classes, 95 \\% intervals}\n")
    assert "\n| metric |" in text["md"]
    rows = [line.split(",") for line in text["csv"].splitlines()]
    assert rows[0] == ["source", "stage", "metric", "value", "low", "high", "floor_mean", "floor_low", "floor_high", "p_value", "verdict"]
    assert {len(row) for row in rows} == {11}
    found = {(row[1], row[2]): row for row in rows[1:]}
    assert len(found) == 2 * len(METRICS) + 4
    assert float(found["before", "nll"][3]) == report.value("nll")
    assert float(found["after temperature", "ece"][3]) == report.value("ece", calibrated=True)
    assert float(found["ood far by entropy", "auroc"][3]) == report.ood["far"].metrics["auroc"].value


def test_people_get_percent(report, tmp_path):
    line = next(line for line in report.save(tmp_path / "a.md").read_text().splitlines() if line.startswith("| ECE, % |"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[1].split()[0] == f"{100 * report.value('ece'):.2f}"
    assert cells[3].split()[0] == f"{100 * report.value('ece', calibrated=True):.2f}"


def test_a_kind_goes_before_the_suffix(report, tmp_path):
    assert report.save(tmp_path / "table.txt", "latex").read_text().startswith("\\begin{table}")


def test_refusals_write_nothing(report, tmp_path):
    with pytest.raises(InvalidInput, match=r"a report's suffix must be one of .html, .json, .csv, .tex, .md, got 'a.pdf'"):
        report.save(tmp_path / "a.pdf")
    with pytest.raises(InvalidInput, match="must be in a folder that exists"):
        report.save(tmp_path / "no" / "a.html")
    bare = Evaluation("bare", 1, 2, dict.fromkeys(METRICS))
    with pytest.raises(InvalidInput, match="a page must be made from an evaluation that holds its scores, 'bare' does not"):
        bare.save(tmp_path / "a.html")
    assert list(tmp_path.iterdir()) == []
