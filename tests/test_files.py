import io
import os
import pickle
import signal
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from rankmixup.errors import Interrupted, InvalidInput
from rankmixup.evaluation import Scores
from rankmixup.files import parse_json, read_json, read_npz, replacing, write_atomic
from rankmixup.runs import Run, StoredRun

LOGITS = np.array([[2.0, 0.0], [0.0, 3.0]])
LABELS = np.array([0, 1])


class Bomb:
    """Unpickling it leaves a mark."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return (Path.touch, (self.mark,))


def test_scores_round_trip(tmp_path):
    Scores(torch.from_numpy(LOGITS), torch.from_numpy(LABELS)).write(tmp_path / "a.npz", index=np.arange(2))
    again = Scores.read(tmp_path / "a.npz")
    assert again.from_logits
    assert np.array_equal(again.scores, LOGITS)
    np.savez(tmp_path / "b.npz", probs=np.array([[0.25, 0.75]], dtype=np.float32), labels=np.array([1], dtype=np.uint8), note="ignored")
    assert not Scores.read(tmp_path / "b.npz").from_logits


def test_nothing_is_left_of_a_file_where_a_signal_stops_it(tmp_path):
    write_atomic(tmp_path / "a", b"before")

    def write():
        with replacing(tmp_path / "a") as file:
            file.write(b"after")
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted, match="stopped by SIGTERM"):
        write()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"before"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_probabilities_of_zero_have_finite_logits():
    scores = Scores(torch.tensor([[1.0, 0.0]]), torch.tensor([0]), from_logits=False)
    torch.testing.assert_close(scores.logits.softmax(1), scores.probs)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"logits": LOGITS}, "must hold an array 'labels', it holds only 'logits'"),
        ({"labels": LABELS}, "must hold one array named 'logits' or 'probs', got neither"),
        ({"labels": LABELS, "logits": LOGITS, "probs": LOGITS}, "got logits and probs"),
        ({"labels": LABELS.astype(float), "logits": LOGITS}, "labels must hold class indices, got dtype torch.float64"),
        ({"labels": LABELS, "logits": LOGITS.astype(int)}, "logits must be floating point, got int64"),
        ({"labels": LABELS[:1], "logits": LOGITS}, r"labels must hold one class index for each of 2 samples, got shape \[1\]"),
        ({"labels": np.array([0, 5]), "logits": LOGITS}, r"labels must lie in 0..1, got 5"),
        ({"labels": LABELS[:0], "logits": LOGITS[:0]}, "at least one sample"),
        ({"labels": LABELS, "logits": np.array([[np.nan, 0], [0, 1]])}, "logits must be finite, row 0 is not"),
        ({"labels": LABELS, "logits": np.array([[0.5, 0.5], [0.1, 0.9]])}, "logits must not be probabilities"),
        ({"labels": LABELS, "probs": LOGITS}, "probs must sum to 1"),
    ],
)
def test_bad_arrays_are_refused_in_one_sentence(tmp_path, arrays, message):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(InvalidInput, match=message) as caught:
        Scores.read(tmp_path / "bad.npz")
    assert "bad.npz" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_of_other_kinds_are_refused(tmp_path):
    good = io.BytesIO()
    np.savez(good, logits=LOGITS, labels=LABELS)
    (tmp_path / "text.npz").write_text("not a zip")
    (tmp_path / "cut.npz").write_bytes(good.getvalue()[:-30])
    np.save(tmp_path / "single.npy", LOGITS)
    for name in ("text.npz", "cut.npz", "single.npy", "missing.npz"):
        with pytest.raises(InvalidInput, match="must be an npz file"):
            Scores.read(tmp_path / name)


def test_pickled_objects_are_never_loaded(tmp_path):
    mark = tmp_path / "mark"
    np.savez(tmp_path / "objects.npz", logits=np.array([Bomb(mark)], dtype=object), labels=LABELS)
    (tmp_path / "pickle.npz").write_bytes(pickle.dumps(Bomb(mark)))
    with zipfile.ZipFile(tmp_path / "zip.npz", "w") as archive:
        archive.writestr("labels.npy", pickle.dumps(Bomb(mark)))
    for name in ("objects.npz", "pickle.npz", "zip.npz"):
        with pytest.raises(InvalidInput, match=name):
            read_npz(tmp_path / name, "labels", optional=("logits",))
    assert not mark.exists()


def test_files_have_the_permissions_of_any_other(tmp_path):
    write_atomic(tmp_path / "ours", b"")
    (tmp_path / "any").touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "any").stat().st_mode


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    write_atomic(path, b"old")

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["result.json"]


def test_a_directory_of_another_configuration_is_refused_untouched(tmp_path):
    run = Run("ce")
    stored, other = StoredRun.locate(tmp_path, run), StoredRun.locate(tmp_path, Run("mixup"))
    stored.create()
    other.create()
    (stored.path / "run.json").write_text((other.path / "run.json").read_text())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(InvalidInput, match="describes another configuration"):
        StoredRun.locate(tmp_path, run)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_foreign_folders_are_refused(tmp_path):
    (tmp_path / Run("ce").id).mkdir()
    (tmp_path / Run("ce").id / "thesis.tex").touch()
    with pytest.raises(InvalidInput, match=r"has files and no run.json"):
        StoredRun.locate(tmp_path, Run("ce"))
    with pytest.raises(InvalidInput, match=r"has no run.json"):
        StoredRun.open(tmp_path)
    (tmp_path / "run.json").write_text('{"method": {"name": "ce", "temperature": 1}}')
    with pytest.raises(InvalidInput, match="unknown field of CrossEntropy 'temperature'"):
        StoredRun.open(tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "Expecting property name"),
        (b"", "Expecting value"),
        (b"\xff", "can't decode byte 0xff"),
        (b'{"a": NaN}', "numbers must be finite, got NaN"),
        (b'{"a": -Infinity}', "numbers must be finite, got -Infinity"),
        (b'{"a": 1e999}', "numbers must be finite, got 1e999"),
        (b"9" * 5000, "a whole number has too many digits"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' * 100_000, "nested too deeply"),
        (rb'["\ud800"]', "surrogates not allowed"),
    ],
)
def test_json_that_is_none_is_refused_in_one_short_sentence_with_its_path(content, reason, tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=f"a.json must be JSON.*{reason}") as caught:
        read_json(path)
    assert len(str(caught.value)) < 300


def test_json_that_is_not_there_or_is_good(tmp_path):
    with pytest.raises(InvalidInput, match=r"none.json must be a JSON file, it cannot be read .*No such file or directory"):
        read_json(tmp_path / "none.json")
    assert parse_json(rb'{"a": [1, 2.5e3, "\ud83d\ude00", "\u00e9"]}', "it") == {"a": [1, 2500.0, "\U0001f600", "é"]}


def test_a_file_is_written_where_folders_cannot_be_opened(tmp_path, monkeypatch):
    def refuse(path, *rest, **more):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("rankmixup.files.os.open", refuse)
    monkeypatch.setattr("rankmixup.files.os.name", "nt")
    write_atomic(tmp_path / "a", b"whole")
    monkeypatch.undo()
    assert (tmp_path / "a").read_bytes() == b"whole"
