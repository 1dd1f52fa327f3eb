import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import rankmixup as rm
from rankmixup.cli.main import main
from rankmixup.errors import InvalidInput
from rankmixup.files import read_npz, write_json, write_npz
from rankmixup.runs import StoredRun
from rankmixup.runs.records import EpochRecord
from tests.paper.stored import store
from tests.runs.records import epoch_record, run_result, split_manifest


@pytest.fixture
def two(tmp_path) -> tuple[StoredRun, StoredRun]:
    mine, other = (store(tmp_path, rm.Run("ce", seed=seed), unknown="svhn") for seed in (0, 1))
    return mine, other


READERS = {
    "val": lambda stored: stored.scores("val"),
    "test": lambda stored: stored.scores("test"),
    "ood-svhn": lambda stored: stored.scores("ood-svhn"),
    "mixed": lambda stored: stored.mixes(),
}


@pytest.mark.parametrize("name", READERS)
def test_predictions_of_another_run_are_not_believed(name, two):
    mine, other = two
    READERS[name](mine)
    path = mine.predictions_path(name)
    shutil.copy(other.predictions_path(name), path)
    with pytest.raises(InvalidInput) as caught:
        READERS[name](mine)
    assert str(caught.value) == f"{path} must be of run {mine.run.id}, it is of run '{other.run.id}'"


@pytest.mark.parametrize("name", READERS)
def test_predictions_that_name_no_run_are_not_believed(name, two):
    mine, _ = two
    path = mine.predictions_path(name)
    write_npz(path, **read_npz(path, "logits", optional=("labels", "lam")))
    with pytest.raises(InvalidInput, match=r"must hold the id of its run in an array 'run', which older versions did not write; train"):
        READERS[name](mine)


def test_swapped_predictions_end_the_command_in_one_sentence(two, capsys):
    mine, other = two
    shutil.copy(other.predictions_path("test"), mine.predictions_path("test"))
    assert main(["evaluate", str(mine.path)]) == 2
    assert f"test.npz must be of run {mine.run.id}, it is of run '{other.run.id}'" in capsys.readouterr().err


def test_a_result_of_another_run_is_not_believed(two):
    mine, other = two
    shutil.copy(other.path / "result.json", mine.path / "result.json")
    with pytest.raises(InvalidInput, match=f"result.json must be of run {mine.run.id}, it is of run '{other.run.id}'"):
        mine.scores("test")


def test_an_array_that_is_no_id_is_of_no_run(two):
    mine, _ = two
    path = mine.predictions_path("test")
    write_npz(path, **read_npz(path, "logits", "labels"), run=np.zeros((1000, 1000)))
    with pytest.raises(InvalidInput, match="it is of run") as caught:
        mine.scores("test")
    assert len(str(caught.value)) < 300


def test_what_a_crash_cut_short_is_left_out_and_what_is_damaged_is_not(two):
    mine, _ = two
    for epoch in (1, 2, 3):
        mine.log(EpochRecord.from_dict(epoch_record(epoch), "a record"))
    path = mine.path / "log.jsonl"
    with path.open("ab") as file:
        file.write(b'{"epoch": 4, \xff')
    assert [record.epoch for record in mine.history()] == [1, 2, 3]
    mine.trim_log(2)
    assert [json.loads(line)["epoch"] for line in path.read_bytes().splitlines()] == [1, 2]
    damaged = path.read_bytes().replace(b'"epoch": 1', b'"epoch": "one"')
    path.write_bytes(damaged)
    for read in (mine.history, lambda: mine.trim_log(1)):
        with pytest.raises(InvalidInput, match=r"log.jsonl, line 1: epoch must be an integer of at least 1, got 'one'"):
            read()
    assert path.read_bytes() == damaged


def test_splits_and_environment_may_be_missing(two):
    mine, _ = two
    assert mine.splits() is None
    assert mine.environment().devices == ("a machine",)
    (mine.path / "env.json").unlink()
    assert mine.environment() is None


def test_paths_that_cannot_be(tmp_path, capsys):
    for runs in (tmp_path / ("a" * 300), tmp_path / "/".join(["a" * 200] * 30)):
        with pytest.raises(InvalidInput, match=r"File name too long"):
            StoredRun.locate(runs, rm.Run("ce"))
        assert main(["train", "ce", "--runs", str(runs)]) == 2
        assert main(["runs", "--runs", str(runs)]) == 2
        assert "Traceback" not in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path, monkeypatch):
    def refuse(self, *rest, **more):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    stored = StoredRun.locate(tmp_path, rm.Run("ce"))
    with pytest.raises(InvalidInput, match=f"{stored.path} must be a folder that can be written to .Permission denied"):
        stored.create()


def test_a_result_is_printed_as_it_stands(two):
    mine, _ = two
    assert mine.result().content == run_result(mine.run)


def test_the_handle_reads_what_its_page_says(two):
    mine, _ = two
    page = (Path(__file__).parents[2] / "docs" / "guides" / "watching.md").read_text()
    (code,) = re.findall(r"```python\n(from rankmixup.runs import StoredRun.*?)```", page, re.S)
    exec(code.replace("runs/<id>", str(mine.path)), {})
    with pytest.raises(InvalidInput, match="there is no such file"):
        mine.scores("ood-missing")


def test_test_scores_have_the_names_of_the_classes(tmp_path):
    stored = store(tmp_path, rm.Run("ce"))
    assert stored.scores("test").class_names is None  # without splits.json
    write_json(stored.path / "splits.json", split_manifest(class_names=list("abcde")))
    assert stored.scores("test").class_names == tuple("abcde")
    write_json(stored.path / "splits.json", split_manifest(class_names=["a", "b"]))
    assert stored.scores("test").class_names is None  # of other classes than the scores
