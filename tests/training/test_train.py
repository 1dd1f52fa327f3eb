import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric
from torch import nn

import rankmixup as rm
from rankmixup.cli.main import main
from rankmixup.data import Digits, Synthetic
from rankmixup.errors import InvalidInput, WorkFailed
from rankmixup.methods import RankMixupMNDCG
from rankmixup.runs import StoredRun
from rankmixup.training import Silent
from rankmixup.training.checkpoint import load_checkpoint, save_checkpoint
from rankmixup.training.predict import predict_mixed

EPOCHS = 3


def short(method="ce", **changes) -> rm.Run:
    recipe = rm.Optimisation(epochs=EPOCHS, batch_size=16, milestones=(2,))
    return rm.Run(method, data=Digits(train_size=50), model="mlp", optimisation=recipe, **changes)


class StopAfter(Silent):
    def __init__(self, epoch: int):
        self.last = epoch

    def epoch(self, record) -> None:
        if record["epoch"] == self.last:
            raise KeyboardInterrupt


def logits(stored: StoredRun, split: str = "test") -> np.ndarray:
    with np.load(stored.predictions_path(split)) as arrays:
        return arrays["logits"]


def history(stored: StoredRun) -> list[list]:
    records = [json.loads(line) for line in (stored.path / "log.jsonl").read_text().splitlines()]
    return [[record["epoch"], record["train"], record["val"]] for record in records]


@pytest.mark.parametrize("method", ["ce", "rankmixup-mndcg"])
def test_same_seed_same_logits(method, tmp_path):
    one, two, other = (rm.train(short(method, seed=seed), runs=tmp_path / folder) for seed, folder in ((0, "a"), (0, "b"), (1, "c")))
    assert np.array_equal(logits(one), logits(two))
    assert not np.array_equal(logits(one), logits(other))


@pytest.mark.parametrize("method", ["mixup", "crl"])
@pytest.mark.parametrize("epoch", range(1, EPOCHS + 1))
def test_a_run_stopped_after_any_epoch_ends_as_if_it_had_not_been(method, epoch, tmp_path):
    whole = rm.train(short(method), runs=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        rm.train(short(method), runs=tmp_path / "stopped", watcher=StopAfter(epoch))
    resumed = rm.train(short(method), runs=tmp_path / "stopped")
    for split in ("val", "test", "mixed"):
        assert np.array_equal(logits(whole, split), logits(resumed, split))
    assert history(whole) == history(resumed)


def with_dropout(name: str, *, num_classes: int, image_size: int, in_channels: int) -> nn.Module:
    """Draws from torch's global generator in every step."""
    return nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(in_channels * image_size**2, num_classes))


class StopAtSave:
    """Interrupts training right after its `last`-th checkpoint."""

    def __init__(self, last: int):
        self.left = last

    def __call__(self, path, state) -> None:
        save_checkpoint(path, state)
        self.left -= path.name == "last.pt"
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("method", ["mixup", "crl"])
@pytest.mark.parametrize("saves", [1, 3, 6])
def test_a_run_stopped_within_an_epoch_ends_as_if_it_had_not_been(method, saves, tmp_path, monkeypatch):
    """Four steps in each epoch, each saved."""
    monkeypatch.setattr("rankmixup.training.trainer.build_model", with_dropout)
    monkeypatch.setattr("rankmixup.training.trainer._SEGMENT", 1)
    monkeypatch.setattr("rankmixup.training.trainer._SAVE_AFTER", 0.0)
    whole = rm.train(short(method), runs=tmp_path / "whole")
    with monkeypatch.context() as patched:
        patched.setattr("rankmixup.training.trainer.save_checkpoint", StopAtSave(saves))
        with pytest.raises(KeyboardInterrupt):
            rm.train(short(method), runs=tmp_path / "stopped")
    state = load_checkpoint(tmp_path / "stopped" / short(method).id / "checkpoints" / "last.pt")
    assert [state["epoch"], state["steps_done"]] == {1: [0, 1], 3: [0, 3], 6: [1, 2]}[saves]
    resumed = rm.train(short(method), runs=tmp_path / "stopped")
    for split in ("val", "test"):
        assert np.array_equal(logits(whole, split), logits(resumed, split))
    assert history(whole) == history(resumed)


@pytest.mark.slow
def test_kill_9_at_any_moment_loses_nothing(tmp_path):
    whole = rm.train(short("rankmixup-mndcg"), runs=tmp_path / "whole")
    run = short("rankmixup-mndcg")
    (tmp_path / "killed").mkdir()
    code = (
        "import json, sys; import rankmixup as rm; from rankmixup.runs import Run; "
        "rm.train(Run.from_dict(json.loads(sys.argv[1])), runs=sys.argv[2])"
    )
    command = [sys.executable, "-c", code, json.dumps(run.to_dict()), str(tmp_path / "killed")]
    last = tmp_path / "killed" / run.id / "checkpoints" / "last.pt"
    for kills in range(2):
        # As many threads as here: sums over another number of them round differently.
        process = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())})
        deadline = time.monotonic() + 120
        stamp = last.stat().st_mtime_ns if kills else 0
        while not last.exists() or last.stat().st_mtime_ns == stamp:
            assert process.poll() is None, "it must be killed while it trains"
            assert time.monotonic() < deadline
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if (tmp_path / "killed" / run.id / "result.json").exists():
            break
    resumed = rm.train(run, runs=tmp_path / "killed")
    assert np.array_equal(logits(whole), logits(resumed))


def test_the_directory_holds_what_the_contract_says(tmp_path):
    stored = rm.train(short("rankmixup-mrl"), runs=tmp_path)
    assert stored.path == tmp_path / stored.run.id
    names = {path.relative_to(stored.path).as_posix() for path in stored.path.rglob("*") if path.is_file()}
    assert {"run.json", "splits.json", "env.json", "log.jsonl", "result.json", "predictions/val.npz", "predictions/test.npz"} <= names
    result = stored.result
    assert set(result) >= {"id", "state", "selection", "metrics", "temperature", "seconds"}
    assert result["id"] == stored.run.id
    assert result["state"] == "finished"
    assert set(result["metrics"]) == {"val", "test"}
    assert set(result["temperature"]) == {"nll", "ece-grid"}
    assert len((stored.path / "log.jsonl").read_text().splitlines()) == EPOCHS
    test = stored.run.data.load().test
    with np.load(stored.predictions_path("test")) as arrays:
        assert np.array_equal(arrays["labels"], test.y)
        assert np.array_equal(arrays["index"], test.source)
    assert StoredRun.open(stored.path).run == stored.run


def test_the_selected_epoch_is_the_first_with_the_best_validation_accuracy(tmp_path):
    for rule, best in (("accuracy", max), ("nll", min)):
        stored = rm.train(short(selection=rule), runs=tmp_path)
        values = [json.loads(line)["val"][rule] for line in (stored.path / "log.jsonl").read_text().splitlines()]
        assert stored.result["selection"] == {"rule": rule, "epoch": 1 + values.index(best(values))}
        assert stored.result["metrics"]["val"][rule] == pytest.approx(best(values))
    assert rm.train(short(selection="last"), runs=tmp_path).result["selection"]["epoch"] == EPOCHS


def test_a_finished_run_is_not_trained_again(tmp_path):
    stored = rm.train(short(), runs=tmp_path)
    before = {path: path.stat().st_mtime_ns for path in stored.path.rglob("*")}
    rm.train(short(), runs=tmp_path, watcher=StopAfter(1))
    assert {path: path.stat().st_mtime_ns for path in stored.path.rglob("*")} == before


def test_the_releases_protocol_selects_on_test_samples_and_says_so(tmp_path, capsys):
    recipe = rm.Optimisation(epochs=1, batch_size=64)
    data = Synthetic(train_size=200, val_size=50, test_size=60, imbalance=5.0, protocol="release")
    with pytest.warns(UserWarning, match="splits should have no image in common, but of test 60 are in val"):
        stored = rm.train(rm.Run("ce", data=data, model="mlp", optimisation=recipe), runs=tmp_path)
    assert stored.result["protocol"] == "release"
    assert np.array_equal(logits(stored, "val"), logits(stored, "test"))
    splits = json.loads((stored.path / "splits.json").read_text())
    assert splits["class_counts"] == data.load().class_counts.tolist()
    assert splits["shared_images"]["val-test"] == splits["test"]["source"]
    assert main(["evaluate", str(stored.path), "--replicates", "5"]) == 0
    assert "protocol release (selected and fitted on test samples): 60 samples" in " ".join(capsys.readouterr().out.split())


def test_samples_of_one_class_have_no_mixes():
    dataset = Synthetic().load()
    alike = dataset.test[(dataset.test.y == 0).nonzero().squeeze(1)]
    model = rm.build_model("mlp", num_classes=10, image_size=8, in_channels=1)
    found, lam = predict_mixed(Fabric(accelerator="cpu", devices=1), model, alike, dataset.view, 0)
    assert (found.shape, lam.shape) == ((0, 10), (0,))


def test_training_leaves_the_global_generators_alone(tmp_path):
    before = torch.random.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    rm.train(short("rankmixup-mndcg"), runs=tmp_path)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002


def test_a_diverging_run_stops_with_one_sentence_and_keeps_its_last_good_checkpoint(tmp_path):
    run = rm.Run("ce", data=Digits(train_size=50), model="mlp", optimisation=rm.Optimisation(epochs=20, lr=1e30, clip=0.0))
    with pytest.raises(WorkFailed, match="of ce must stay finite, got nan in epoch"):
        rm.train(run, runs=tmp_path)
    assert not StoredRun.locate(tmp_path, run).finished


def test_a_checkpoint_that_is_not_ours_is_refused_not_executed(tmp_path):
    from tests.test_files import Bomb

    mark = tmp_path / "mark"
    torch.save({"model": Bomb(mark)}, tmp_path / "bomb.pt")
    (tmp_path / "cut.pt").write_bytes((tmp_path / "bomb.pt").read_bytes()[:100])
    (tmp_path / "text.pt").write_text("junk")
    for name in ("bomb.pt", "cut.pt", "text.pt"):
        with pytest.raises(WorkFailed, match="cannot be read"):
            load_checkpoint(tmp_path / name)
    assert not mark.exists()


@pytest.mark.parametrize("content", [b"junk", b""])
def test_a_damaged_checkpoint_is_refused_and_nothing_is_rewritten(content, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        rm.train(short(), runs=tmp_path, watcher=StopAfter(2))
    path = tmp_path / short().id
    (path / "checkpoints" / "last.pt").write_bytes(content)
    before = {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in path.rglob("*") if file.is_file()}
    with pytest.raises(WorkFailed, match="cannot be read"):
        rm.train(short(), runs=tmp_path)
    assert {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in path.rglob("*") if file.is_file()} == before


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        rm.train(short(), runs=tmp_path, watcher=StopAfter(1))
    torch.save({"weights": torch.zeros(2)}, tmp_path / short().id / "checkpoints" / "last.pt")
    with pytest.raises(WorkFailed, match="is not one of ours: it holds \\['weights'\\]"):
        rm.train(short(), runs=tmp_path)


def test_an_unwritable_place_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="must be a directory that can be written to"):
        rm.train(short(), runs=tmp_path / "file")


def test_a_batch_with_one_sample_left_over_trains(tmp_path):
    recipe = rm.Optimisation(epochs=1, batch_size=49)
    run = rm.Run(RankMixupMNDCG(num_mixes=2), data=Digits(train_size=50), model="resnet8", optimisation=recipe)
    assert rm.train(run, runs=tmp_path).finished


@pytest.mark.dist
@pytest.mark.parametrize("method", ["rankmixup-mndcg", "crl"])
def test_two_processes_train_and_predict_exactly(method, tmp_path):
    command = [sys.executable, "-m", "rankmixup", "train", method, "--model", "resnet8", "--data.train-size", "101", "--epochs", "2"]
    command += ["--accelerator", "cpu", "--devices", "2", "--runs", str(tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["state"] == "finished"
    stored = StoredRun.open(tmp_path / result["id"])
    test = stored.run.data.load().test
    with np.load(stored.predictions_path("test")) as arrays:
        assert np.array_equal(arrays["labels"], test.y)
        stored_logits = arrays["logits"]
    # What two processes stored is what one process computes from the checkpoint: nothing padded, doubled or out of order.
    model = rm.build_model(stored.run.model, num_classes=10, image_size=8, in_channels=1)
    model.load_state_dict(load_checkpoint(stored.checkpoints / "best.pt")["model"])
    with torch.no_grad():
        np.testing.assert_allclose(stored_logits, model.eval()(test.x), rtol=1e-4, atol=1e-5)


@pytest.mark.dist
def test_a_run_is_not_resumed_on_another_number_of_processes(tmp_path):
    command = [sys.executable, "-m", "rankmixup", "train", "ce", "--model", "mlp", "--epochs", "2", "--accelerator", "cpu"]
    command += ["--runs", str(tmp_path), "--json"]
    run = rm.Run("ce", model="mlp", optimisation=dataclasses.replace(rm.Run("ce").optimisation, epochs=2))
    with pytest.raises(KeyboardInterrupt):
        rm.train(run, runs=tmp_path, watcher=StopAfter(1))
    done = subprocess.run([*command, "--devices", "2"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert "must be resumed on as many processes as it was begun on, 1, got 2" in done.stderr
