import io
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from rankmixup.errors import InvalidInput
from rankmixup.runs import Scores

LOGITS = torch.tensor([[2.0, 0.0, -1.0], [0.5, 3.0, 0.25], [-1.0, 0.0, 4.0]])
PROBS = torch.tensor([[0.5, 0.25, 0.25], [0.125, 0.75, 0.125], [0.0, 0.0, 1.0]])
LABELS = torch.tensor([0, 1, 2])
NAMES = ["cat", "dog", "<script>"]


class Bomb:
    """Unpickling it leaves a mark."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return (Path.touch, (self.mark,))


def refusal(path: Path, kind: str | None = None) -> str:
    with pytest.raises(InvalidInput) as caught:
        Scores.read(path, kind)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def save(folder: Path, ending: str, kind: str, scores: torch.Tensor, labels: torch.Tensor) -> Path:
    path = folder / f"scores{ending}"
    if ending == ".npz":
        np.savez(path, **{kind: scores.numpy(), "labels": labels.numpy(), "class_names": np.array(NAMES)})
    elif ending in (".pt", ".pth"):
        torch.save({kind: scores, "labels": labels, "class_names": NAMES, "epoch": 3}, path)
    elif ending == ".safetensors":
        save_file({kind: scores, "labels": labels, "other": torch.zeros(2)}, path, metadata={"class_names": json.dumps(NAMES)})
    else:
        rows = [[*map(repr, row), str(label)] for row, label in zip(scores.tolist(), labels.tolist(), strict=True)]
        header = [f"{kind}_{name}" for name in NAMES] + ["label"]
        path.write_text("\n".join(",".join(row) for row in [header, *rows]) + "\n")
    return path


@pytest.mark.parametrize("ending", [".npz", ".pt", ".pth", ".safetensors", ".csv"])
@pytest.mark.parametrize(("kind", "scores"), [("logits", LOGITS), ("probs", PROBS)])
def test_every_format_says_the_same(tmp_path, ending, kind, scores):
    path = save(tmp_path, ending, kind, scores, LABELS)
    for said in (None, kind):
        read = Scores.read(path, said)
        assert torch.equal(read.scores, scores.double())
        assert torch.equal(read.labels, LABELS)
        assert read.from_logits == (kind == "logits")
        assert read.class_names == tuple(NAMES)
    other = {"logits": "probs", "probs": "logits"}[kind]
    assert f"says itself that it holds {kind}, kind (--from) must not be '{other}'" in refusal(path, other)
    with pytest.raises(InvalidInput, match="kind must be 'logits' or 'probs', got 'odds'"):
        Scores.read(path, "odds")


def test_names_survive_a_round_trip(tmp_path):
    Scores(PROBS, LABELS, from_logits=False, class_names=("a", "b", "c")).write(tmp_path / "a.npz")
    assert Scores.read(tmp_path / "a.npz").class_names == ("a", "b", "c")
    with pytest.raises(InvalidInput, match="class_names must name each of 3 classes, got 2 names"):
        Scores(LOGITS, LABELS, class_names=("a", "b"))


def test_a_probability_of_zero_is_the_least_number_above_it():
    logits = Scores(PROBS.double(), LABELS, from_logits=False).logits
    assert logits[2, 0].item() == pytest.approx(np.log(np.finfo(np.float64).tiny))
    torch.testing.assert_close(logits.softmax(1), PROBS.double())


@pytest.mark.parametrize(
    "text",
    [
        "2,0,-1,0\n0.5,3,0.25,1\n-1,0,4,2\n",
        "2;0;-1;0\n0.5;3;0.25;1\n-1;0;4;2",
        "0,1,2,3\n2,0,-1,0.0\n0.5,3,0.25,1.0\n-1,0,4,2.0\n",  # a table saved with the numbers of its columns
        "labels,a,b,c\n0,2,0,-1\n1,0.5,3,0.25\n2,-1,0,4\n",
        "\ufeffid,c2,c0,c1,Label\n7,-1,2,0,0\n8,0.25,0.5,3,1\n9,4,-1,0,2\n",  # numbered classes are put in order
        '"a","b","c","truth"\r\n2,0,-1,0\r\n\r\n0.5,3,0.25,1\r\n-1,0,4,2\r\n',
        ",x,y,z,label\n0,2,0,-1,0\n1,0.5,3,0.25,1\n2,-1,0,4,2\n",  # a row number without a name
    ],
)
def test_csv_with_and_without_a_header(tmp_path, text):
    path = tmp_path / "scores.csv"
    path.write_text(text, encoding="utf-8")
    read = Scores.read(path, "logits")
    assert torch.equal(read.scores, LOGITS.double())
    assert torch.equal(read.labels, LABELS)
    assert "does not say what it holds, kind (--from) must be" in refusal(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "first line is empty"),
        ("a,b,label\n", "at least one row of numbers"),
        ("1,2,0\n1,2\n", "number of columns changed from 3 to 2"),
        ("1,2,0\n1,cat,1\n", "could not convert string 'cat'"),
        ("a,b,label\n1,2,0\n1,2,cat\n", "could not convert string 'cat'"),
        ("a,b,label\n1,2,3,0\n", "a name for each of 4 columns, got 3"),
        ("a,a,label\n1,2,0\n", "every column a name of its own, got ['a'] more than once"),
        ("a,label,labels\n1,0,0\n", "one column of labels, got 2"),
        ("1,2,0.5\n", "labels must be whole class indices, row 0 has 0.5"),
        ("1,2,0\n1,2,nan\n", "labels must be whole class indices, row 1 has nan"),
        ("1,2,inf\n", "one is too large"),
        ("1,2,2\n", r"labels must lie in 0..1, got 2"),
        ("1,2,-1\n", r"labels must lie in 0..1, got -1"),
        ("nan,2,0\n", "logits must be finite, row 0 is not"),
        ("5\n6\n", "at least one column of scores"),
    ],
)
def test_bad_csv_is_refused_in_one_sentence(tmp_path, text, message):
    path = tmp_path / "scores.csv"
    path.write_text(text)
    assert message in refusal(path, "logits")


def test_csv_of_bytes_is_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes(bytes(range(256)))
    refusal(tmp_path / "a.csv", "logits")


@pytest.mark.parametrize("ending", [".npz", ".pt", ".safetensors"])
def test_files_that_are_cut_or_damaged_are_refused(tmp_path, ending):
    whole = save(tmp_path, ending, "logits", LOGITS, LABELS).read_bytes()
    path = tmp_path / f"damaged{ending}"
    for size in (0, 1, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        refusal(path)
    path.write_text("not what its name says")
    refusal(path)


@pytest.mark.parametrize("ending", [".npz", ".pt", ".safetensors"])
def test_a_changed_byte_gives_scores_or_one_sentence(tmp_path, ending):
    whole = save(tmp_path, ending, "logits", LOGITS, LABELS).read_bytes()
    path = tmp_path / f"damaged{ending}"
    refusals = []
    for place in range(0, len(whole), max(1, len(whole) // 60)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x5A]) + whole[place + 1 :])
        try:
            Scores.read(path)
        except InvalidInput as error:
            refusals.append(str(error))
    assert len(refusals) > 5
    assert not any("\n" in message for message in refusals)


def test_pickled_objects_are_never_loaded(tmp_path):
    mark = tmp_path / "mark"
    torch.save({"logits": LOGITS, "labels": LABELS, "extra": Bomb(mark)}, tmp_path / "object.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Bomb(mark)))
    buffer = io.BytesIO()
    torch.save(Bomb(mark), buffer, _use_new_zipfile_serialization=False)
    (tmp_path / "legacy.pth").write_bytes(buffer.getvalue())
    for name in ("object.pt", "plain.pt", "legacy.pth"):
        assert "never loaded" in refusal(tmp_path / name)
    (tmp_path / "pickle.safetensors").write_bytes(pickle.dumps(Bomb(mark)))
    (tmp_path / "pickle.csv").write_bytes(pickle.dumps(Bomb(mark)))
    refusal(tmp_path / "pickle.safetensors")
    refusal(tmp_path / "pickle.csv", "logits")
    assert not mark.exists()


@pytest.mark.parametrize(
    ("held", "message"),
    [
        (LOGITS, "must hold an array 'labels', it holds 'logits' alone"),
        ((LOGITS, LABELS, LABELS), "must hold a dict with 'logits' or 'probs' and 'labels', or (scores, labels), got tuple"),
        ((LOGITS, [0, 1, 2]), "its second entry must be a tensor, got list"),
        ((LOGITS, LABELS.float()), "labels must hold class indices, got dtype torch.float32"),
        ((LOGITS, torch.eye(3)), "labels must hold one class index for each of 3 samples, got one-hot rows"),
        ((LOGITS, torch.eye(3, dtype=torch.int64)), "labels.argmax(1) are the indices"),
        ((LOGITS, LABELS.unsqueeze(1)), "labels must hold one class index for each of 3 samples, got shape [3, 1]"),
        ((LOGITS.long(), LABELS), "logits must be floating point, got int64"),
        ((LOGITS[0], LABELS), "logits must have shape [N, K], got [3]"),
        ((LOGITS[:0], LABELS[:0]), "at least one sample"),
        ((PROBS, LABELS), "logits must not be probabilities"),
    ],
)
def test_bad_tensors_are_refused_in_one_sentence(tmp_path, held, message):
    torch.save(held, tmp_path / "bad.pt")
    assert message in refusal(tmp_path / "bad.pt", "logits")


def test_dictionaries_name_what_they_hold(tmp_path):
    for held, message in (
        ({"labels": LABELS}, "must hold one array named 'logits' or 'probs', got neither"),
        ({"logits": LOGITS, "probs": PROBS, "labels": LABELS}, "got logits and probs"),
        ({"logits": LOGITS}, "must hold an array 'labels', it holds 'logits' alone"),
        ({"logits": LOGITS, "labels": LABELS, "class_names": [1, 2, 3]}, "class_names must be a list of texts"),
        ({"logits": LOGITS, "labels": LABELS, "class_names": ["a"]}, "class_names must name each of 3 classes, got 1 names"),
    ):
        torch.save(held, tmp_path / "bad.pt")
        assert message in refusal(tmp_path / "bad.pt")


def test_half_precision_and_pairs_of_tensors(tmp_path):
    for dtype in (torch.float16, torch.bfloat16):
        torch.save((LOGITS.to(dtype), LABELS.to(torch.uint8)), tmp_path / "pair.pt")
        assert "does not say what it holds" in refusal(tmp_path / "pair.pt")
        assert torch.equal(Scores.read(tmp_path / "pair.pt", "logits").scores, LOGITS.double())


def test_scores_without_labels(tmp_path):
    """Samples of no known class: a bare tensor, arrays without labels, or a csv without such a column."""
    torch.save(LOGITS, tmp_path / "bare.pt")
    np.savez(tmp_path / "alone.npz", logits=LOGITS.numpy())
    (tmp_path / "plain.csv").write_text("2,0,-1\n0.5,3,0.25\n-1,0,4\n")
    (tmp_path / "named.csv").write_text("logit_0,logit_1,logit_2,label\n2,0,-1,9\n0.5,3,0.25,9\n-1,0,4,9\n")
    for name, kind in (("bare.pt", "logits"), ("alone.npz", None), ("plain.csv", "logits"), ("named.csv", None)):
        assert torch.equal(Scores.read_unlabelled(tmp_path / name, kind).scores, LOGITS.double())


def test_other_endings_folders_and_missing_files_are_refused(tmp_path):
    (tmp_path / "scores.parquet").touch()
    (tmp_path / "folder.pt").mkdir()
    assert "got '.parquet'" in refusal(tmp_path / "scores.parquet")
    assert "it is a folder" in refusal(tmp_path / "folder.pt")
    assert "there is no such file" in refusal(tmp_path / "missing.csv")
