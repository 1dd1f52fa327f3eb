"""Initial weights as a part of a run: what its id depends on, what run.json holds, and what is refused before anything is trained."""

import json
import shutil

import pytest
import torch

import rankmixup as rm
from rankmixup.cli.main import main
from rankmixup.errors import InvalidInput
from rankmixup.files import write_json
from rankmixup.runs import StoredRun, Weights
from tests.oracles import unchecked
from tests.runs.records import run_result


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "weights.pt"
    torch.save({"a": torch.zeros(1)}, path)
    return path


@pytest.fixture
def finished(tmp_path):
    """A run with a checkpoint of its selected epoch and an older one, as training leaves them."""
    stored = StoredRun.locate(tmp_path / "runs", rm.Run("ce", model="mlp"))
    stored.create()
    (stored.checkpoints / "best-00000009-0123456789ab.pt").touch()
    (stored.checkpoints / "best-00000010-ba9876543210.pt").touch()
    write_json(stored.path / "result.json", run_result(stored.run))
    return stored


def test_ids_of_runs_without_weights_are_what_they_were():
    assert rm.Run("ce").id == "6c20121c452d"
    assert rm.Run("ce", optimisation=rm.Optimisation(layer_decay=1.0)).id == rm.Run("ce", optimisation=rm.Optimisation()).id
    assert rm.Run("ce", optimisation=rm.Optimisation(layer_decay=0.9)).id != rm.Run("ce", optimisation=rm.Optimisation()).id


def test_a_file_is_its_content_wherever_it_is(file, tmp_path):
    one = rm.Run("ce", weights=file)
    moved = shutil.copy(file, tmp_path / "elsewhere.pth")
    assert one.id == rm.Run("ce", weights=moved).id != rm.Run("ce").id
    assert one == rm.Run("ce", weights=str(moved))
    torch.save({"a": torch.ones(1)}, moved)
    assert rm.Run("ce", weights=moved).id != one.id
    assert one.weights.source == "file"
    assert len(one.weights.fingerprint) == 64


def test_what_is_read_back_does_not_look_for_the_weights(file, finished, tmp_path):
    pytest.importorskip("timm")
    runs = [
        rm.Run("ce", weights=file, freeze=True),
        rm.Run("ce", model="mlp", init_from=finished.path, preprocess="data"),
        rm.Run("ce", model="timm/test_resnet", pretrained=True),
    ]
    described = [json.loads(json.dumps(run.to_dict())) for run in runs]
    file.unlink()
    shutil.rmtree(finished.path)
    assert [rm.Run.from_dict(each) for each in described] == runs
    assert described[1]["weights"] == {"source": "run", "tag": finished.run.id, "fingerprint": "ba9876543210", "path": str(finished.path)}
    assert described[2]["weights"] == {"source": "library", "tag": "r160_in1k", "fingerprint": "", "path": ""}


def test_another_run_is_its_id_and_its_checkpoint(finished, tmp_path):
    one = rm.Run("ce", model="mlp", init_from=finished.path)
    copied = shutil.copytree(finished.path, tmp_path / "elsewhere" / finished.run.id)
    assert rm.Run("ce", model="mlp", init_from=str(copied)).id == one.id
    (copied / "checkpoints" / "best-00000010-ba9876543210.pt").unlink()
    assert rm.Run("ce", model="mlp", init_from=copied).id != one.id


def test_what_is_refused(file, finished, tmp_path):
    with pytest.raises(InvalidInput, match="only one of pretrained, weights and init_from must be given, got weights and init_from"):
        rm.Run("ce", model="mlp", weights=file, init_from=finished.path)
    with pytest.raises(InvalidInput, match=r"model must be that of run .*, 'mlp', got 'resnet8'"):
        rm.Run("ce", init_from=finished.path)
    with pytest.raises(InvalidInput, match="freeze must go with pretrained, weights or init_from"):
        rm.Run("ce", freeze=True)
    for given in ({}, {"weights": file}):
        with pytest.raises(InvalidInput, match="preprocess 'data' must go with pretrained or init_from"):
            rm.Run("ce", preprocess="data", **given)
    with pytest.raises(InvalidInput, match="there is no such file"):
        rm.Run("ce", weights=tmp_path / "nothing.pt")
    with pytest.raises(InvalidInput, match="must be a run directory"):
        rm.Run("ce", init_from=tmp_path)
    with pytest.raises(InvalidInput, match="layer_decay must lie in"):
        rm.Optimisation(layer_decay=0.0)
    for name in ("weights", "init_from", "pretrained", "preprocess", "freeze"):
        with pytest.raises(InvalidInput, match=name), unchecked():
            rm.Run("ce", model="torchvision/resnet18", **{name: 3})
    for path in finished.checkpoints.iterdir():
        path.unlink()
    with pytest.raises(InvalidInput, match="must have a checkpoint of its selected epoch, it has none"):
        rm.Run("ce", model="mlp", init_from=finished.path)
    (finished.path / "result.json").unlink()
    with pytest.raises(InvalidInput, match="must be finished"):
        rm.Run("ce", model="mlp", init_from=finished.path)


def test_show_refuses_what_training_would_and_shows_the_recipe_of_fine_tuning(file, finished, tmp_path, capsys):
    def answer(*flags):
        status = main(["train", "rankmixup-mrl", *map(str, flags), "--show", "--json"])
        return status, capsys.readouterr()

    (finished.path / "result.json").rename(tmp_path / "result.json")
    wrong = (
        ("--pretrained",),
        ("--weights", tmp_path / "no.pt"),
        ("--init-from", finished.path, "--model", "mlp"),
        ("--freeze",),
        ("--recipe", "x"),
    )
    for flags in wrong:
        status, printed = answer(*flags)
        assert status == 2
        assert printed.err.count("\n") == 1
    (tmp_path / "result.json").rename(finished.path / "result.json")
    status, printed = answer("--init-from", finished.path, "--model", "mlp", "--recipe", "finetune", "--lr", "1e-3", "--freeze")
    shown = json.loads(printed.out)
    assert status == 0
    assert shown["run"]["weights"]["tag"] == finished.run.id
    assert shown["run"]["freeze"] is True
    assert shown["run"]["optimisation"]["optimiser"] == "adamw"
    given = {name: shown["sources"][f"optimisation.{name}"] for name in ("lr", "epochs", "layer_decay", "batch_size")}
    assert given == {"lr": "given", "epochs": "ELECTRA", "layer_decay": "BEiT", "batch_size": "ours"}
    assert (shown["sources"]["weights.source"], shown["sources"]["freeze"]) == ("given", "given")
    assert shown["id"] == rm.Run.from_dict(shown["run"]).id
    assert answer("--weights", file)[0] == 0


def test_weights_are_described_by_their_source():
    with pytest.raises(InvalidInput, match=r"Weights\.source"), unchecked():
        Weights.from_dict({"source": "elsewhere"})
