"""Which columns are scores and which are labels, by name, by number and by request."""

import re
import shlex
from pathlib import Path

import pytest
import torch

from rankmixup.cli.main import main
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import Scores
from rankmixup.evaluation.csv_columns import LABEL_NAMES


def read(folder: Path, header: str, *rows: str, kind: str | None = "logits", **asked) -> Scores:
    path = folder / "scores.csv"
    path.write_text("\n".join([header, *rows] if header else rows) + "\n")
    return Scores.read(path, kind, **asked)


def test_a_class_may_have_any_name_that_is_asked_for(tmp_path):
    found = read(tmp_path, "id,index,weight,label", "1.5,2.5,9,0", "0.5,3.5,9,1", columns=["id", "index"])
    assert found.scores.tolist() == [[1.5, 2.5], [0.5, 3.5]]
    assert found.class_names == ("id", "index")
    swapped = read(tmp_path, "id,index,weight,label", "1.5,2.5,9,0", columns=["index", "id"])
    assert swapped.scores.tolist() == [[2.5, 1.5]]


def test_the_label_is_found_by_name_even_where_other_columns_are_whole_numbers(tmp_path):
    for header in ("target,logit_0,logit_1", "Y-True,logit_0,logit_1", "True Label,logits[0],logits[1]"):
        found = read(tmp_path, header, "1,4,0", "0,7,1", kind=None)
        assert found.labels.tolist() == [1, 0]
        assert found.scores.tolist() == [[4, 0], [7, 1]]


def test_columns_with_a_prefix_are_the_scores_and_all_others_are_ignored(tmp_path):
    found = read(tmp_path, "path,prob_cat,weight,label,prob_dog", "a.png,0.25,7,dog,0.75", "b.png,1,7,cat,0", kind=None)
    assert found.scores.tolist() == [[0.25, 0.75], [1, 0]]
    assert found.labels.tolist() == [1, 0]
    assert found.class_names == ("cat", "dog")
    assert not found.from_logits


def test_logits_and_probabilities_in_one_file(tmp_path):
    table = ("logit0,logit1,prob0,prob1,label", "0,0,0.5,0.5,1")
    assert read(tmp_path, *table, kind="probs").scores.tolist() == [[0.5, 0.5]]
    assert read(tmp_path, *table, kind="logits").scores.tolist() == [[0, 0]]
    with pytest.raises(InvalidInput, match="both logits and probabilities, kind \\(--from\\) must say which to read"):
        read(tmp_path, *table, kind=None)


def test_a_file_without_a_header(tmp_path):
    rows = "1,4.5,0", "0,7,1"  # labels first; the last column could hold them too
    with pytest.raises(
        InvalidInput, match="columns '0', '2' could all be labels, since there is no header; name the column of labels with label_column"
    ):
        read(tmp_path, "", *rows)
    found = read(tmp_path, "", *rows, label_column="0")
    assert (found.labels.tolist(), found.scores.tolist()) == ([1, 0], [[4.5, 0], [7, 1]])
    found = read(tmp_path, "", *rows, label_column="2", columns=["1", "0"])
    assert (found.labels.tolist(), found.scores.tolist()) == ([0, 1], [[4.5, 1], [7, 0]])
    assert read(tmp_path, "", *rows, columns=["1", "0"]).labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("header", "row", "asked", "message"),
    [
        ("a,b,weight,label", "1,2,1,0", {}, "'weight' may not be; name the classes with columns (--columns)"),
        ("id,a,index,label", "1,2,1,0", {}, "'id', 'index' may not be"),
        ("a,b,note,label", "1,2,x,0", {}, "'note' may not be"),
        (
            "a,b,c",
            "1,2,0",
            {},
            "must be named label, target or similar, got 'a', 'b', 'c'; name the column of labels with label_column (--label-column)",
        ),
        ("a,b,label,target", "1,2,0,0", {}, "got 'label', 'target'; name the column of labels with label_column (--label-column)"),
        ("a,a,label", "1,2,0", {}, "every column must have a different name, got 'a' more than once"),
        ("logit_0,logit_2,label", "1,2,0", {}, "numbered columns must be classes from 0 or 1 on without a gap, got '0', '2'"),
        ("logit_0,logit_1,logit_max,label", "1,2,2,0", {}, "without a gap, got '0', '1', 'max'"),
        ("a,b,label", "1,2,0", {"label_column": "lable"}, "unknown column 'lable'; did you mean 'label'?"),
        ("a,b,label", "1,2,0", {"columns": ["a", "B"]}, "unknown column 'B'; did you mean 'b'?"),
        ("a,b,label", "1,2,0", {"columns": ["a", "a"]}, "columns (--columns) must name each column once"),
        ("a,b,label", "1,2,0", {"columns": ["a", "label"], "label_column": "label"}, "must not name the column of labels, got 'label'"),
        ("label", "0", {}, "at least one column of scores and one of labels"),
        ("", "1.5,0", {"label_column": "2"}, "unknown column '2'"),
        ("", "1.5,0", {"columns": ["1"]}, "label_column (--label-column) must be given if columns"),
    ],
)
def test_what_could_mean_two_things_is_refused_with_the_way_out(tmp_path, header, row, asked, message):
    with pytest.raises(InvalidInput) as caught:
        read(tmp_path, header, row, **asked)
    assert message in str(caught.value)
    assert str(tmp_path / "scores.csv") in str(caught.value)


@pytest.mark.parametrize(
    ("header", "row", "command"),
    [
        ("case,site,age,risk,outcome", "a{n},north,{age},{p},{y}", "--from probs --label-column outcome --columns risk"),
        ("age,risk,label", "{age},{p},{y}", "--from probs --label-column label --columns risk"),
        ("model output,truth,site", "{z},{y},north", "--from logits --label-column truth --columns 'model output'"),
        ("site,cat,dog,outcome", "north,{p},{q},{y}", "--from probs --label-column outcome --columns cat dog"),
        ("case,risk,older_risk,label", "a{n},{p},{p},{y}", "--from probs --label-column label --columns SCORE"),
        ("case,sex,risk,outcome", "a{n},{y},{p},{y}", "--from probs --label-column LABEL --columns risk"),
    ],
)
def test_a_table_with_more_columns_is_refused_with_the_command_to_copy(tmp_path, monkeypatch, capsys, header, row, command):
    """Whole numbers beside fractions, too, are no class: they were one, without a word."""
    monkeypatch.chdir(tmp_path)
    numbers = [{"n": n, "age": 30 + n, "p": (n + 0.5) / 20, "q": 1 - (n + 0.5) / 20, "z": n - 9.5, "y": n % 2} for n in range(20)]
    Path("a vendor.csv").write_text("\n".join([header, *(row.format(**each) for each in numbers)]) + "\n")
    assert main(["evaluate", "a vendor.csv", "--from", "probs" if "{z}" not in row else "logits"]) == 2
    error = capsys.readouterr().err.rstrip()
    assert error.endswith(f"; for example: rankmixup evaluate 'a vendor.csv' {command}")
    if not re.search("LABEL|SCORE", command):
        assert main([*shlex.split(error.rpartition("rankmixup ")[2]), "--replicates", "5"]) == 0
    assert main(["evaluate", "a vendor.csv", "--columns", "riks"]) == 2
    assert "riks" not in capsys.readouterr().err.rpartition("for example")[2]


def test_a_column_of_zeros_beside_fractions_may_be_a_class(tmp_path):
    rows = [f"0,{n / 7:.3f},{n % 2}" for n in range(20)]
    assert read(tmp_path, "ham,spam,label", *rows).class_names == ("ham", "spam")


def test_samples_of_no_class_need_no_column_of_labels(tmp_path):
    path = tmp_path / "ood.csv"
    for text, asked in (
        ("a,b\n1.5,2.5\n", {}),
        ("a,b\n1.5,2.5\n", {"label_column": "label"}),
        ("a,b,label\n1.5,2.5,fish\n", {}),
        ("1.5,2.5\n", {}),
        ("9,1.5,2.5\n", {"label_column": "0"}),
        ("a,b,weight\n1.5,2.5,1\n", {"columns": ["a", "b"]}),
    ):
        path.write_text(text)
        assert torch.equal(Scores.read(path, "logits", **asked, labelled=False).scores, torch.tensor([[1.5, 2.5]]).double())


def test_the_page_about_score_files_names_every_column_of_labels():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "score-files.md").read_text()
    assert all(f"`{name}`" in page for name in LABEL_NAMES)


@pytest.mark.parametrize(
    ("header", "rows", "kind", "class_names"),
    [
        ("logit,label", ("0.5,1", "0.25,0"), None, None),
        ("id,probability,label", ("a,0.5,1", "b,0.25,0"), None, None),
        ("logit,prob,label", ("7,0.5,1", "8,0.25,0"), "probs", None),
        ("prob_1,label", ("0.5,1", "0.25,0"), None, None),
        ("logit_class1,label", ("0.5,1", "0.25,0"), None, None),
        ("score,label", ("0.5,1", "0.25,0"), "logits", None),
        ("prob_spam,label", ("0.5,1", "0.25,0"), None, None),
        ("prob_spam,label", ("0.5,spam", "0.25,ham"), None, ("ham", "spam")),
        ("spam,label", ("0.5,spam", "0.25,ham"), "probs", ("ham", "spam")),
        ("", ("0.5,1", "0.25,0"), "probs", None),
    ],
)
def test_one_column_of_scores_is_that_of_class_1(tmp_path, header, rows, kind, class_names):
    found = read(tmp_path, header, *rows, kind=kind)
    others = [[0.0, 0.5], [0.0, 0.25]] if found.from_logits else [[0.5, 0.5], [0.75, 0.25]]
    assert (found.scores.tolist(), found.labels.tolist(), found.class_names) == (others, [1, 0], class_names)
    assert found.from_logits == (kind == "logits" or (kind is None and header.startswith("logit")))


@pytest.mark.parametrize(
    ("header", "rows", "kind", "message"),
    [
        ("prob_0,label", ("0.5,1",), None, "one column of scores must be that of class 1 of two, 'prob_0' may not be"),
        ("prob_2,label", ("0.5,1",), None, "'prob_2' may not be"),
        ("prob_max,label", ("0.5,1",), None, "'prob_max' may not be"),
        ("confidence,label", ("0.5,1",), "probs", "'confidence' may not be"),
        ("score,label", ("0.5,1",), None, "does not say what it holds"),
        ("prob,probs,label", ("0.5,0.5,1",), None, "one column of scores must be that of class 1 of two, got 'prob', 'probs'"),
        ("logit,prob,label", ("0.5,0.5,1",), None, "there are both logits and probabilities"),
        ("prob,label", ("0.5,1", "0.25,2"), None, "labels must be whole class indices in 0..1, row 1 has 2"),
        (
            "prob,label",
            ("0.5,1", "0.25,spam"),
            None,
            "labels must be class indices if classes have no names, row 1 has 'spam'; a csv",
        ),
        ("prob_spam,label", ("0.5,spam", "0.25,ham", "0.1,egg"), None, "labels must be 0 and 1, or 'spam' and one other name, since"),
        ("prob_spam,label", ("0.5,egg", "0.25,ham"), None, "labels must be 0 and 1, or 'spam' and one other name, since"),
        ("prob,label", ("0.5,1", "1.5,0"), None, "probs of class 1 must lie in 0..1 (logits, perhaps?), got 1.5"),
        ("", ("1,1", "0,0"), "probs", "columns '0', '1' could all be labels, since there is no header"),
    ],
)
def test_one_column_that_may_be_something_else_is_refused(tmp_path, header, rows, kind, message):
    with pytest.raises(InvalidInput) as caught:
        read(tmp_path, header, *rows, kind=kind)
    assert message in str(caught.value)


@pytest.mark.parametrize(("no", "yes"), [("no", "yes"), ("NO", "YES"), ("False", "True"), ("false", "true")])
def test_answers_are_labels_of_one_column_and_the_command_of_a_refusal_reads_them(tmp_path, no, yes):
    """As vendors and pandas write them."""
    rows = (f"0.5,40,{yes}", f"0.25,41,{no}", f"0.75,42,{yes}")
    scores = read(tmp_path, "prob,age,outcome", *rows, kind="probs", label_column="outcome", columns=("prob",))
    assert (scores.labels.tolist(), scores.class_names) == ([1, 0, 1], (no, yes))
    with pytest.raises(InvalidInput, match="--from probs --label-column outcome --columns prob") as caught:
        read(tmp_path, "prob,age,outcome", *rows, kind="probs")
    assert "\n" not in str(caught.value)
