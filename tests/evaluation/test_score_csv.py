import csv
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmixup.errors import InvalidInput
from rankmixup.evaluation import Scores

LOGITS = torch.tensor([[2.0, 0.0, -1.0], [0.5, 3.0, 0.25], [-1.0, 0.0, 4.0]]).double()
LABELS = torch.tensor([0, 1, 2])


def read(folder: Path, text: str, kind: str | None = "logits", **asked) -> Scores:
    path = folder / "scores.csv"
    path.write_text(text, encoding="utf-8")
    return Scores.read(path, kind, **asked)


def refusal(folder: Path, text: str, **asked) -> str:
    with pytest.raises(InvalidInput) as caught:
        read(folder, text, **asked)
    message = str(caught.value)
    assert str(folder / "scores.csv") in message
    assert "\n" not in message
    assert len(message) < 500
    return message


@pytest.mark.parametrize(
    "text",
    [
        "2,0,-1,0\n0.5,3,0.25,1\n-1,0,4,2\n",
        "2;0;-1;0\n0.5;3;0.25;1\n-1;0;4;2",
        "0,1,2,3\n2,0,-1,0.0\n0.5,3,0.25,1.0\n-1,0,4,2.0\n",  # a table saved with the numbers of its columns
        "labels,a,b,c\n0,2,0,-1\n1,0.5,3,0.25\n2,-1,0,4\n",
        "\ufeffc2,c0,c1,Label\n-1,2,0,0\n0.25,0.5,3,1\n4,-1,0,2\n",  # numbered classes are put in order
        "target,3,1,2\n1,-1,2,0\n2,0.25,0.5,3\n3,4,-1,0\n",  # labels are the numbers of the columns
        '"a","b","c","truth"\r\n2,0,-1,0\r\n\r\n0.5,3,0.25,1\r\n-1,0,4,2\r\n',
        '"a\nx","b,y","c","truth"\n2,0,-1,c\n0.5,3,0.25,"b,y"\n-1,0,4,"a\nx"\n',
        ",u,v,w,label\n0,2,0,-1,0\n1,0.5,3,0.25,1\n2,-1,0,4,2\n",  # row numbers as pandas writes them
    ],
)
def test_with_and_without_a_header(tmp_path, text):
    found = read(tmp_path, text)
    assert torch.equal(found.scores, LOGITS)
    assert found.labels.tolist() in ([0, 1, 2], [2, 1, 0])
    assert ("truth" in text and "x" in text) == (found.labels.tolist() == [2, 1, 0])
    assert "does not say what it holds, kind (--from) must be" in refusal(tmp_path, text, kind=None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the first line must hold names or numbers, it is empty"),
        ("a,b,label\n", "at least one row of numbers"),
        ("1,2,0\n1,2\n", "number of columns changed from 3 to 2"),
        ("1,2.5,0\n1,cat,1\n", "could not convert string 'cat' to float64 in row 2, column 2 (both counted from 1, without a header)"),
        ("1,2,0\n1," + 10**6 * "x" + ",1\n", "it cannot be read (field larger than field limit"),
        ("1,2,0\n1," + 10**5 * "x" + ",1\n", "could not convert string 'xxx"),
        ("logit_a,logit_b,note,label\n1,2,x,0\n1,2,x,y,0\n", "number of columns changed from 4 to 5"),
        ("a,b,label\n1,2,0\n1,2,cat\n", "labels must be class names, row 0 has '0'"),
        ("a,b,label\n1,2,3,0\n", "the first row must have as many cells as the others, 4, got 3"),
        ("1,2,0.5\n", "labels must be whole class indices in 0..1, row 0 has 0.5; name the column of labels with label_column"),
        ("3,2,0\n3,2,nan\n", "row 1 has nan"),
        ("1,2,inf\n", "row 0 has inf"),
        ("1,2,2\n", "in 0..1, row 0 has 2"),
        ("1,2,-1\n", "in 0..1, row 0 has -1"),
        ("1,2,1000000\n", "in 0..1, row 0 has 1000000"),
        ("1,2,18446744073709551615\n", "in 0..1, row 0 has 1.8446744073709552e+19"),
        ("logit_1,logit_2,y\n1,2,0\n", "in 1..2, row 0 has 0"),
        ("nan,2,0\n", "logits must be finite, row 0 is not"),
        ("5\n6\n", "at least one column of scores"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(tmp_path, text, message):
    assert message in refusal(tmp_path, text)


def test_bytes_are_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes(bytes(range(256)))
    with pytest.raises(InvalidInput, match="must be a whole csv file, it cannot be read"):
        Scores.read(tmp_path / "a.csv", "logits")


names = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1), min_size=2, max_size=5, unique_by=str.strip
)


@settings(max_examples=60)
@given(names=names, data=st.data())
def test_any_names_of_classes_come_back(tmp_path_factory, names, data):
    names = ["x" + name.strip() + "x" for name in names]  # of no number
    labels = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=4))
    path = tmp_path_factory.mktemp("names") / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"logit_{name}" for name in names), "label"])
        writer.writerows([*(0.5 * place for place, _ in enumerate(names)), label] for label in labels)
    found = Scores.read(path)
    assert found.class_names == tuple(names)
    assert [names[label] for label in found.labels.tolist()] == labels
