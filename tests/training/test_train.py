import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric

import rankmixup as rm
from rankmixup.cli.main import main
from rankmixup.data import Digits, Synthetic
from rankmixup.errors import InvalidInput
from rankmixup.methods import RankMixupMNDCG
from rankmixup.runs import StoredRun
from rankmixup.runs.checkpoint import load_best
from rankmixup.runs.records import Selected
from rankmixup.training import Watcher
from rankmixup.training.predict import Predictor

EPOCHS = 3


def short(method="ce", **changes) -> rm.Run:
    optimisation = rm.Optimisation(epochs=EPOCHS, batch_size=16, milestones=(2,))
    return rm.Run(method, data=Digits(train_size=50), model="mlp", optimisation=optimisation, **changes)


class StopAfter(Watcher):
    def __init__(self, epoch: int):
        self.last = epoch

    def epoch(self, record) -> None:
        if record["epoch"] == self.last:
            raise KeyboardInterrupt


def logits(stored: StoredRun, split: str = "test") -> np.ndarray:
    with np.load(stored.predictions_path(split)) as arrays:
        return arrays["logits"]


@pytest.mark.parametrize("method", ["ce", "rankmixup-mndcg"])
def test_same_seed_same_logits(method, tmp_path):
    one, two, other = (rm.train(short(method, seed=seed), runs=tmp_path / folder) for seed, folder in ((0, "a"), (0, "b"), (1, "c")))
    assert np.array_equal(logits(one), logits(two))
    assert not np.array_equal(logits(one), logits(other))


def test_the_directory_holds_what_the_contract_says(tmp_path):
    stored = rm.train(short("rankmixup-mrl"), runs=tmp_path)
    assert stored.path == tmp_path / stored.run.id
    names = {path.relative_to(stored.path).as_posix() for path in stored.path.rglob("*") if path.is_file()}
    assert {"run.json", "splits.json", "env.json", "log.jsonl", "result.json", "predictions/val.npz", "predictions/test.npz"} <= names
    result = stored.result().content
    assert set(result) >= {"id", "state", "selection", "metrics", "temperature", "seconds"}
    assert result["id"] == stored.run.id
    assert result["state"] == "finished"
    assert set(result["metrics"]) == {"val", "test"}
    assert set(result["temperature"]) == {"nll", "ece-grid"}
    assert len((stored.path / "log.jsonl").read_text().splitlines()) == EPOCHS
    test = stored.run.data.load().test
    with np.load(stored.predictions_path("test")) as arrays:
        assert np.array_equal(arrays["labels"], test.y)
        assert np.array_equal(arrays["index"], test.index)
    assert StoredRun.open(stored.path).run == stored.run


def test_the_selected_epoch_is_the_first_with_the_best_validation_accuracy(tmp_path):
    for rule, best in (("accuracy", max), ("nll", min)):
        stored = rm.train(short(selection=rule), runs=tmp_path)
        values = [json.loads(line)["val"][rule] for line in (stored.path / "log.jsonl").read_text().splitlines()]
        assert stored.result().selection == Selected(rule, 1 + values.index(best(values)))
        assert stored.result().metrics["val"][rule] == pytest.approx(best(values))
    assert rm.train(short(selection="last"), runs=tmp_path).result().selection.epoch == EPOCHS


def test_a_finished_run_is_not_trained_again(tmp_path):
    stored = rm.train(short(), runs=tmp_path)
    before = {path: path.stat().st_mtime_ns for path in stored.path.rglob("*")}
    rm.train(short(), runs=tmp_path, watcher=StopAfter(1))
    assert {path: path.stat().st_mtime_ns for path in stored.path.rglob("*")} == before


def test_the_releases_protocol_selects_on_test_samples_and_says_so(tmp_path, capsys):
    optimisation = rm.Optimisation(epochs=1, batch_size=64)
    data = Synthetic(train_size=200, val_size=50, test_size=60, imbalance=5.0, protocol="release")
    with pytest.warns(UserWarning, match="splits should have no image in common, but of test 60 are in val"):
        stored = rm.train(rm.Run("ce", data=data, model="mlp", optimisation=optimisation), runs=tmp_path)
    assert stored.result().content["protocol"] == "release"
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
    found, lam = Predictor(Fabric(accelerator="cpu", devices=1), model, dataset.view).predict_mixed(alike, 0)
    assert (found.shape, lam.shape) == ((0, 10), (0,))


def test_training_leaves_the_global_generators_alone(tmp_path):
    before = torch.random.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    rm.train(short("rankmixup-mndcg"), runs=tmp_path)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002


def test_an_unwritable_place_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="must be a folder that can be written to"):
        rm.train(short(), runs=tmp_path / "file")


def test_a_batch_with_one_sample_left_over_trains(tmp_path):
    optimisation = rm.Optimisation(epochs=1, batch_size=49)
    run = rm.Run(RankMixupMNDCG(num_mixes=2), data=Digits(train_size=50), model="resnet8", optimisation=optimisation)
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
    model.load_state_dict(load_best(stored.checkpoints, stored.run.id))
    with torch.no_grad():
        np.testing.assert_allclose(stored_logits, model.eval()(test.x), rtol=1e-4, atol=1e-5)
