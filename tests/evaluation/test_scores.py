import io
import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from rankmixup.errors import InvalidInput
from rankmixup.evaluation import Scores
from rankmixup.evaluation.evaluation import evaluate_scores

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
    assert f"holds {kind} by name, kind (--from) must not be '{other}'" in refusal(path, other)
    with pytest.raises(InvalidInput, match="kind must be 'logits' or 'probs', got 'odds'"):
        Scores.read(path, "odds")


def test_names_survive_a_round_trip(tmp_path):
    Scores(PROBS, LABELS, from_logits=False, class_names=("a", "b", "c")).write(tmp_path / "a.npz")
    assert Scores.read(tmp_path / "a.npz").class_names == ("a", "b", "c")
    with pytest.raises(InvalidInput, match="class_names must name each of 3 classes, got 2 names"):
        Scores(LOGITS, LABELS, class_names=("a", "b"))


def test_a_probability_of_zero_is_half_of_the_smallest_that_half_precision_has():
    logits = Scores(PROBS.double(), LABELS, from_logits=False).logits
    assert logits[2, 0].item() == pytest.approx(np.log(2.0**-24 / 2))
    torch.testing.assert_close(logits.softmax(1), PROBS.double(), atol=1e-7, rtol=0)


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


def test_every_changed_byte_of_the_numbers_in_a_pt_file_is_noticed(tmp_path):
    """torch reads them without a look at their checksums."""
    path = save(tmp_path, ".pt", "logits", LOGITS, LABELS)
    whole = path.read_bytes()
    for tensor in (LOGITS, LABELS):
        start = whole.index(tensor.numpy().tobytes())
        for place in range(start, start + tensor.nbytes):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            assert "Bad CRC-32" in refusal(path)


def test_a_small_pt_file_cannot_unpack_to_more_memory_than_allowed(tmp_path, monkeypatch):
    monkeypatch.setenv("RANKMIXUP_MAX_GIB", "0.01")
    torch.save({"logits": torch.zeros(1, 10).expand(10**8, 10), "labels": LABELS}, tmp_path / "expanded.pt")
    torch.save({"logits": torch.zeros(4_000_000), "labels": LABELS}, tmp_path / "zeros.pt")
    with zipfile.ZipFile(tmp_path / "zeros.pt") as stored, zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as bomb:
        for name in stored.namelist():
            bomb.writestr(name.replace("zeros/", "bomb/"), stored.read(name))
    assert (tmp_path / "bomb.pt").stat().st_size < 20_000
    for name in ("expanded.pt", "bomb.pt"):
        assert "GiB, which must be at most 0.01 GiB" in refusal(tmp_path / name)
    torch.save({"logits": LOGITS, "labels": LABELS, "more": bytearray(10)}, tmp_path / "array.pt")
    assert "it holds a bytearray, which is never loaded" in refusal(tmp_path / "array.pt")


def test_a_safetensors_file_cannot_promise_what_it_does_not_hold(tmp_path):
    path = save(tmp_path, ".safetensors", "logits", LOGITS, LABELS)
    whole = path.read_bytes()
    size = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + size])
    for entry in (
        {"dtype": "F64", "shape": [10**12, 10], "data_offsets": [0, 8 * 10**13]},
        {"dtype": "F32", "shape": [3, 3], "data_offsets": header["labels"]["data_offsets"]},
    ):
        text = json.dumps(header | {"logits": entry}).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + whole[8 + size :])
        refusal(path)
    path.write_bytes((2**63).to_bytes(8, "little") + whole[8:])
    refusal(path)


def test_pickled_objects_are_never_loaded(tmp_path):
    mark = tmp_path / "mark"
    torch.save({"logits": LOGITS, "labels": LABELS, "extra": Bomb(mark)}, tmp_path / "object.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Bomb(mark)))
    buffer = io.BytesIO()
    torch.save(Bomb(mark), buffer, _use_new_zipfile_serialization=False)
    (tmp_path / "legacy.pth").write_bytes(buffer.getvalue())
    for name in ("object.pt", "plain.pt", "legacy.pth"):
        assert "never loaded" in refusal(tmp_path / name)
    torch.save({"logits": LOGITS, "labels": LABELS}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    assert "save it again with torch.save" in refusal(tmp_path / "old.pt")
    (tmp_path / "pickle.safetensors").write_bytes(pickle.dumps(Bomb(mark)))
    (tmp_path / "pickle.csv").write_bytes(pickle.dumps(Bomb(mark)))
    refusal(tmp_path / "pickle.safetensors")
    refusal(tmp_path / "pickle.csv", "logits")
    assert not mark.exists()


@pytest.mark.parametrize(
    ("held", "message"),
    [
        (LOGITS, "must hold an array 'labels', it holds only 'logits'"),
        ((LOGITS, LABELS, LABELS), "must hold a dict with 'logits' or 'probs' and 'labels', or (scores, labels), got tuple"),
        ((LOGITS, [0, 1, 2]), "its second entry must be a tensor, got list"),
        ((LOGITS, LABELS.float()), "labels must hold class indices, got dtype torch.float32"),
        ((LOGITS, torch.eye(3)), "labels must hold one class index for each of 3 samples, got one-hot rows"),
        ((LOGITS, torch.eye(3, dtype=torch.int64)), "labels.argmax(1) are the indices"),
        ((LOGITS, LABELS.unsqueeze(1)), "labels must hold one class index for each of 3 samples, got shape [3, 1]"),
        ((LOGITS.long(), LABELS), "logits must be floating point, got int64"),
        ((LOGITS[0], LABELS), "labels must be 0 or 1, since logits of shape [3] are of two classes, got 2"),
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
        ({"logits": LOGITS}, "must hold an array 'labels', it holds only 'logits'"),
        ({"logits": LOGITS, "labels": LABELS, "class_names": [1, 2, 3]}, "class_names must be a list of strings"),
        ({"logits": LOGITS, "labels": LABELS, "class_names": ["a"]}, "class_names must name each of 3 classes, got 1 names"),
    ):
        torch.save(held, tmp_path / "bad.pt")
        assert message in refusal(tmp_path / "bad.pt")


@pytest.mark.parametrize("dtype", ["uint8", "uint64", ">i4", ">u8", "int16"])
def test_labels_of_every_whole_type(tmp_path, dtype):
    np.savez(tmp_path / "a.npz", logits=LOGITS.numpy().astype(">f8"), labels=LABELS.numpy().astype(dtype))
    read = Scores.read(tmp_path / "a.npz")
    assert torch.equal(read.labels, LABELS)
    assert torch.equal(read.scores, LOGITS.double())


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array([0, 1, 10**6]), "labels must lie in 0..2, got 1000000"),
        (np.array([0, 1, 2**64 - 1], dtype=np.uint64), "labels must be less than 2^63, got 18446744073709551615"),
        (np.array([0, 1, -(2**63)]), "labels must lie in 0..2, got -9223372036854775808"),
        (np.array([False, True, True]), "labels must hold class indices, got dtype torch.bool"),
        (np.array([0.0, 1.0, 2.0]), "labels must hold class indices, got dtype torch.float64; this library is for single-label"),
        (np.array(["a", "b", "c"]), "labels must be class indices if classes have no names, row 0 has 'a'"),
        (np.array([["a"], ["b"], ["c"]]), "labels must hold real numbers, got ndarray of type <U1"),
        (np.array(["2020-01-01"] * 3, dtype="datetime64[D]"), "labels must hold real numbers, got ndarray of type datetime64[D]"),
    ],
)
def test_labels_of_no_class_are_refused(tmp_path, labels, message):
    np.savez(tmp_path / "a.npz", logits=LOGITS.numpy(), labels=labels)
    assert message in refusal(tmp_path / "a.npz")


def test_labels_may_be_names_of_classes(tmp_path):
    names, labels = np.array(["cat", "dög", "bird"]), ["bird", "cat", "dög"]
    np.savez(tmp_path / "text.npz", logits=LOGITS.numpy(), labels=np.array(labels), class_names=names)
    np.savez(tmp_path / "bytes.npz", logits=LOGITS.numpy(), labels=np.char.encode(np.array(labels), "utf-8"), class_names=names)
    torch.save({"logits": LOGITS, "labels": labels, "class_names": names.tolist()}, tmp_path / "text.pt")
    for name in ("text.npz", "bytes.npz", "text.pt"):
        assert Scores.read(tmp_path / name).labels.tolist() == [2, 0, 1]
    np.savez(tmp_path / "other.npz", logits=LOGITS.numpy(), labels=np.array(["cat", "cat", "fish"]), class_names=names)
    assert "labels must be class names, row 2 has 'fish'" in refusal(tmp_path / "other.npz")
    assert len(Scores.read(tmp_path / "other.npz", labelled=False)) == 3


def test_half_precision_and_pairs_of_tensors(tmp_path):
    for dtype in (torch.float16, torch.bfloat16):
        torch.save((LOGITS.to(dtype), LABELS.to(torch.uint8)), tmp_path / "pair.pt")
        assert "does not say what it holds" in refusal(tmp_path / "pair.pt")
        assert torch.equal(Scores.read(tmp_path / "pair.pt", "logits").scores, LOGITS.double())


def test_half_precision_probabilities_in_a_file_are_in_the_bins_of_their_numbers(tmp_path):
    confidence = np.array([0.55, 0.6] * 20)
    probs, labels = np.stack([confidence, 1 - confidence], axis=1), np.array([0, 1] * 20)
    for dtype in (np.float64, np.float32, np.float16):
        np.savez(tmp_path / "scores.npz", probs=probs.astype(dtype), labels=labels)
        ece = evaluate_scores(Scores.read(tmp_path / "scores.npz"), replicates=10).value("ece")  # both in the bin up to 9 / 15
        assert ece == pytest.approx(0.075, abs=5e-4)


def test_scores_without_labels(tmp_path):
    """Samples of no known class: a bare tensor, arrays without labels, or a csv without such a column."""
    torch.save(LOGITS, tmp_path / "bare.pt")
    np.savez(tmp_path / "alone.npz", logits=LOGITS.numpy())
    (tmp_path / "plain.csv").write_text("2,0,-1\n0.5,3,0.25\n-1,0,4\n")
    (tmp_path / "named.csv").write_text("logit_0,logit_1,logit_2,label\n2,0,-1,9\n0.5,3,0.25,9\n-1,0,4,9\n")
    for name, kind in (("bare.pt", "logits"), ("alone.npz", None), ("plain.csv", "logits"), ("named.csv", None)):
        assert torch.equal(Scores.read(tmp_path / name, kind, labelled=False).scores, LOGITS.double())


def test_other_endings_folders_and_missing_files_are_refused(tmp_path):
    (tmp_path / "scores.parquet").touch()
    (tmp_path / "folder.pt").mkdir()
    assert "got '.parquet'" in refusal(tmp_path / "scores.parquet")
    assert "it is a folder" in refusal(tmp_path / "folder.pt")
    assert "there is no such file" in refusal(tmp_path / "missing.csv")
    np.savez(tmp_path / "a.npz", logits=LOGITS.numpy(), labels=LABELS.numpy())
    with pytest.raises(InvalidInput, match="must be a csv file where label_column or columns is given"):
        Scores.read(tmp_path / "a.npz", label_column="labels")


def test_flags_of_a_pt_archive_that_no_checksum_covers_change_nothing(tmp_path):
    """Where the directory of the archive calls a tensor a folder, torch would return uninitialised memory."""
    torch.save({"logits": LOGITS, "labels": LABELS}, tmp_path / "a.pt")
    content = bytearray((tmp_path / "a.pt").read_bytes())
    start = 0
    while (start := content.find(b"PK\x01\x02", start)) >= 0:
        content[start + 38] |= 0x10  # external attributes: a folder
        start += 4
    (tmp_path / "a.pt").write_bytes(content)
    read = Scores.read(tmp_path / "a.pt")
    assert torch.equal(read.scores, LOGITS.double())
    assert torch.equal(read.labels, LABELS)


def test_paths_may_be_texts(tmp_path):
    path = str(tmp_path / "a.npz")
    Scores(PROBS, LABELS, from_logits=False).write(path)
    assert torch.equal(Scores.read(path).scores, PROBS.double())
