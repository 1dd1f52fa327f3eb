import csv
import io
import re

import pytest

from rankmixup.errors import InvalidInput
from rankmixup.reports.export import DataTable, to_csv, to_latex, to_markdown
from tests.reports.entries import HOSTILE

HOSTILE_TABLE = DataTable(["class", "n"], [[name, number] for number, name in enumerate(HOSTILE)])


def test_latex_is_a_booktabs_table_with_numbers_to_the_right():
    table = DataTable(["model", "n", "ECE, %", "interval"], [["a", 1000, 4.75, "4.2 to 5.3"], ["b", 10, None, ""]])
    assert to_latex(table).splitlines() == [
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        r"model & n & ECE, \% & interval \\",
        r"\midrule",
        r"a & 1000 & 4.75 & 4.2 to 5.3 \\",
        r"b & 10 &  &  \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_latex_escapes_everything_that_is_a_command():
    body = to_latex(HOSTILE_TABLE).splitlines()[4:-2]
    assert len(body) == len(HOSTILE)
    for line in body:
        cells = line.removesuffix(r" \\")
        # What is left without escapes has no special letter but the one between the two cells.
        plain = re.sub(r"\\text[a-z]+\{\}|\\[&%$#_{}]|\{[\[\]*]\}", "", cells)
        assert not set('\\%$#_{}~^<>|[]*"') & set(plain)
        assert plain.count("&") == 1
        assert not line.lstrip().startswith(("[", "*"))


def test_latex_writes_letters_that_it_lacks_as_commands():
    assert r"$\lambda$ $\pm$ $-$ -- \ldots{}" in to_latex(DataTable(["λ ± \u2212 \u2013 …"], []))


def test_csv_is_read_back():
    rows = list(csv.reader(io.StringIO(to_csv(HOSTILE_TABLE))))
    assert rows[0] == ["class", "n"]
    for (name, _), original in zip(rows[1:], HOSTILE, strict=True):
        assert name.removeprefix("'") == " ".join(original.split())


@pytest.mark.parametrize("formula", ["=1+1", "@SUM(A1)", "+cmd", "-cmd", "-1+1", "\t=1"])
def test_csv_text_is_never_a_formula(formula):
    field = to_csv(DataTable(["x"], [[formula]])).splitlines()[1]
    assert field.startswith("'")


@pytest.mark.parametrize(
    ("cell", "field"), [("-1.5", "-1.5"), ("+0.2", "+0.2"), ("-1e-5", "-1e-5"), (-2, "-2"), (None, ""), (0.1 + 0.2, "0.30000000000000004")]
)
def test_csv_keeps_numbers(cell, field):
    assert to_csv(DataTable(["x"], [[cell]])).split("\n")[1] == field


def test_markdown_has_one_pipe_for_each_column_and_no_markup():
    head, rule, *body = to_markdown(HOSTILE_TABLE).splitlines()
    assert (head, rule) == ("| class | n |", "| --- | ---: |")
    assert len(body) == len(HOSTILE)
    for line in body:
        bare = re.sub(r"\\.", "", line)
        assert bare.count("|") == 3
        assert not set("<>`*_[]") & set(bare)


def test_numbers_have_six_digits_where_people_read_them():
    table = DataTable(["x"], [[1 / 3]])
    assert "0.333333 " in to_latex(table)
    assert "| 0.333333 |" in to_markdown(table)


@pytest.mark.parametrize(
    ("cells", "numeric"),
    [(["1", "2.5"], True), (["<0.001", "", None], True), (["\u22121.5"], True), (["1", "a"], False), ([], False), ([None, ""], False)],
)
def test_a_column_is_numeric_if_all_its_cells_begin_with_a_number(cells, numeric):
    assert DataTable(["x"], [[cell] for cell in cells]).numeric == [numeric]


def test_rows_of_another_length_are_refused():
    with pytest.raises(InvalidInput, match="a row must have 2 cells, one for each column, got 1"):
        DataTable(["a", "b"], [["x"]])
