"""The scorecard in every format, and documents that are what the generator makes of the committed numbers."""

import csv
import json
import re

import pytest

from rankmixup.errors import InvalidInput
from rankmixup.paper import EXPERIMENTS, find_scale
from rankmixup.paper.scorecard import Scorecard, scorecard
from rankmixup.reports.results import BEGIN, END, insert_summary, read_scorecard, results_page, summary, write_results
from rankmixup.reports.scorecard import claims_table, experiment_tables, not_run, scorecard_view
from rankmixup.reports.tables import to_text
from studies.results import FOLDER, documents
from tests.paper.stored import store

QUICK = find_scale("quick")
SOME = {
    "table1": ["ce", "mixup", "rankmixup-mrl"],
    "table5": [],
    "figure3": [],
    "figure4": [f"{method}/alpha={alpha}" for method in ("rankmixup-mndcg", "mixup") for alpha in (0.2, 2)],
}


@pytest.fixture(scope="module")
def card(tmp_path_factory) -> Scorecard:
    runs = tmp_path_factory.mktemp("runs")
    parts = [EXPERIMENTS[key].part(rows) for key, rows in SOME.items()]
    for part in parts:
        for position, cell in enumerate(part.cells(QUICK, 1).values()):
            for run in cell.runs:
                store(runs, run, 1.5 + 0.2 * position, samples=100)
    return scorecard(parts, QUICK, runs, replicates=40)


@pytest.fixture(scope="module")
def folder(card, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results") / "quick"
    write_results(card, folder)
    return folder


def test_everything_is_written_and_read_back(card, folder):
    names = {path.name for path in folder.iterdir()}
    assert names == {"scorecard.json", "scorecard.csv", "claims.csv", "scorecard.md", "scorecard.tex", "scorecard.html", "figures"}
    assert read_scorecard(folder) == card
    figures = {path.stem for path in (folder / "figures").glob("*.png")}
    assert {"confidence-by-lambda", "figure3", "table1-cifar10-resnet50", "table5-cifar10-resnet50"} <= figures
    assert {path.stem for path in (folder / "figures").glob("*.svg")} == figures


def test_every_figure_of_the_page_exists_and_every_figure_is_shown(folder):
    shown = set(re.findall(r"\]\(figures/([^)]+)\.png\)", (folder / "scorecard.md").read_text()))
    assert shown == {path.stem for path in (folder / "figures").glob("*.png")}


def test_csv_has_every_cell_run_or_not_as_fractions(card, folder):
    with (folder / "scorecard.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(card.scores)
    empty = [row for row in rows if row["verdict"] == "not run"]
    assert empty
    assert all(row["value"] == "" and float(row["paper"] or 0) < 1 for row in empty)
    ran = next(row for row in rows if row["experiment"] == "table5" and row["value"])
    assert 0 <= float(ran["low"]) <= float(ran["value"]) <= float(ran["high"]) < 1
    assert ran["verdict"] == "other scale"


def test_the_page_is_one_file_that_holds_the_numbers(card, folder):
    page = (folder / "scorecard.html").read_text()
    data = re.search(r'id="report-data">(.*?)</script>', page, flags=re.DOTALL).group(1)
    assert Scorecard.from_dict(json.loads(data)) == card
    assert not re.search(r"(?:src|href)=\"(?!#|data:)", page)
    assert page.count("<svg") == len(list((folder / "figures").glob("*.svg")))


def test_latex_has_no_letter_that_it_cannot_print(folder):
    assert (folder / "scorecard.tex").read_text().isascii()


def test_tables_say_what_was_not_run_and_what_was_not_published(card):
    assert len(not_run(card, "table1")) == 5
    (table,) = experiment_tables(card, "figure4")
    papers = {(row[0], row[1]): row[2] for row in table.rows}
    assert papers["M-NDCG, alpha=2", "ECE"] == "2.59(0.57)"  # a cell of table 1
    assert papers["M-NDCG, alpha=0.2", "ECE"] == "not published"
    text = to_text(scorecard_view(card), width=120)
    assert "table1, not run:" in text
    assert all(sentence in " ".join(text.split()) for sentence in ("other scale", "m=1.0", "inconclusive"))


def test_words_stay_whole_on_a_narrow_terminal(card):
    lines = to_text(scorecard_view(card), width=80).splitlines()
    assert "m=1.0" in {line.split()[0] for line in lines if line.split()}
    assert any("verdict other scale" in line for line in lines)  # said once, above the rows
    assert all(len(line) <= 80 for line in lines)


def test_every_claim_has_its_row(card):
    table = claims_table(card)
    assert [row[0] for row in table.rows] == [1, 2, 3, 4, 5, 6, 7, 11]
    assert {row[-1] for row in table.rows} <= {"holds", "does not hold", "inconclusive", "not run"}


def test_the_summary_goes_between_its_markers(card):
    text = insert_summary(f"before\n{BEGIN}\nstale\n{END}\nafter\n", summary(card, "docs/results/reproduction.md"))
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "stale" not in text
    assert insert_summary(text, summary(card, "docs/results/reproduction.md")) == text
    assert len(text.splitlines()) < 40  # one screen
    with pytest.raises(InvalidInput, match="markers"):
        insert_summary("no markers", "text")


def test_what_was_written_by_hand_is_kept_on_the_page(card):
    assert "It was the network." in results_page(card, "figures", why="It was the network.")


@pytest.mark.skipif(not (FOLDER / "scorecard.json").is_file(), reason="the study has not been run yet")
def test_documents_are_what_the_committed_numbers_say():
    for path, text in documents().items():
        assert path.read_text() == text, f"{path} is out of date; python -m studies.results writes it"
