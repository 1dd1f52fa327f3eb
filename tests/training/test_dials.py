"""Dials in a run: tuned on validation samples alone, logged, resumed exactly, the same in every process."""

import io
import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from rich.console import Console

import rankmixup as rm
from rankmixup.cli.main import main
from rankmixup.data import Digits, Synthetic
from rankmixup.errors import InvalidInput
from rankmixup.methods import Focal, RankMixupAuto
from rankmixup.ops import confidence
from rankmixup.runs import StoredRun
from rankmixup.training import ProgressWatcher, check_run
from tests.oracles import unchecked
from tests.training.runs import EPOCHS, STEPS, At, crash, same, short


@pytest.fixture
def fits(monkeypatch):
    """A network that is taken to fit its training samples from the first epoch, so that the dial of a short run moves."""
    monkeypatch.setattr("rankmixup.methods.step.FITS", 100.0)


def dials(stored: StoredRun) -> list[dict]:
    return [dict(record.dial) for record in stored.history()]


def test_a_run_logs_its_dials_and_says_what_they_were_tuned_on(tmp_path, fits):
    stored = rm.train(short("rankmixup-auto"), runs=tmp_path)
    values = [each["margin"] for each in dials(stored)]
    assert values[0] == -20.0
    assert len(set(values)) == EPOCHS
    tuning = stored.result().content["tuning"]
    assert (tuning["split"], tuning["samples"]) == ("val", 400)
    assert tuning["dials"]["margin"] == values[stored.result().selection.epoch - 1]


def test_a_run_that_crashed_ends_as_if_it_had_not(tmp_path, fits):
    run = short("rankmixup-auto")
    whole = rm.train(run, runs=tmp_path / "whole")
    for epoch, step in ((0, 2), (1, None), (1, STEPS), (2, 3)):
        with pytest.raises(KeyboardInterrupt):
            rm.train(run, runs=tmp_path / "crashed", watcher=At(crash, epoch=epoch, step=step), checkpoint_every="2steps")
    resumed = rm.train(run, runs=tmp_path / "crashed")
    assert same(whole, resumed)
    assert dials(whole) == dials(resumed)
    assert whole.result().content["tuning"] == resumed.result().content["tuning"]


def test_a_dial_that_never_acted_is_said_once_at_the_end_and_stays_in_the_log(tmp_path):
    """Three epochs in which the network fits after the last one at best: cross-entropy to the last digit."""
    run = short("rankmixup-auto")
    with pytest.warns(UserWarning, match=r"^margin of rankmixup-auto never acted in training, .*: train longer") as seen:
        stored = rm.train(run, runs=tmp_path)
    assert len(seen) == 1
    assert [len(record.warnings) for record in stored.history()] == [0, 0, 1]


def test_the_sizes_of_the_splits_are_said_first(tmp_path):
    text = io.StringIO()
    watcher = ProgressWatcher(Console(file=text, width=200))
    rm.train(short("mixup"), runs=tmp_path, watcher=watcher)
    first, second, *_ = text.getvalue().splitlines()
    assert first == "50 training, 400 validation and 1,347 test samples"
    assert second.startswith("mixup on digits")


def given(tmp_path, per_class, splits):
    """An npz file of two classes that are told apart by the sign of a number."""
    arrays = {}
    for start, name in enumerate(splits):
        y = np.arange(2 * per_class) % 2
        arrays |= {f"x{name}": np.stack([2.0 * y - 1, np.linspace(start, start + 0.9, len(y))], 1).astype(np.float32), f"y{name}": y}
    np.savez(tmp_path / "data.npz", **arrays)
    return rm.data.Npz(path=str(tmp_path / "data.npz"))


@pytest.mark.parametrize(("per_class", "refused"), [(120, True), (320, False)])
def test_a_dial_is_refused_where_the_library_can_keep_too_few_samples_for_it(per_class, refused, tmp_path):
    """A tenth of 4/5 of the samples: 18 of 240, 50 of 640."""
    data = given(tmp_path, per_class, [""])
    check_run(rm.Run("ce", data))
    if not refused:
        return check_run(rm.Run("rankmixup-auto", data))
    rule = r"^margin of rankmixup-auto must be tuned on at least 50 samples where they are taken from the training samples, got 18; give"
    with pytest.raises(InvalidInput, match=rule):
        check_run(rm.Run("rankmixup-auto", data))
    with pytest.raises(InvalidInput, match=rule):
        rm.train(rm.Run("rankmixup-auto", data), runs=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
    return None


def test_few_validation_samples_that_were_given_are_taken_with_a_warning(tmp_path):
    data, optimisation = given(tmp_path, 20, ["_train", "_val", "_test"]), rm.Optimisation(epochs=2, batch_size=16)
    run = rm.Run("rankmixup-auto", data, "mlp", optimisation)
    with pytest.warns(UserWarning, match=r" was tuned on 40 samples, of which .* up to 8 points"):
        rm.train(run, runs=tmp_path)


@pytest.mark.filterwarnings("ignore:.* was tuned on 100 samples:UserWarning")
def test_a_part_of_the_validation_samples_can_be_kept_apart(tmp_path, fits):
    stored = rm.train(short("rankmixup-auto", tune_on=0.25), runs=tmp_path)
    splits = json.loads((stored.path / "splits.json").read_text())
    assert (splits["val"]["size"], splits["tuning"]["size"]) == (300, 100)
    assert not set(splits["val"]["source"]) & set(splits["tuning"]["source"])
    assert len(stored.scores("val")) == 300
    assert stored.result().content["tuning"]["split"] == "tuning"
    whole = json.loads((rm.train(short("ce"), runs=tmp_path).path / "splits.json").read_text())
    assert sorted(splits["val"]["source"] + splits["tuning"]["source"]) == whole["val"]["source"]


def test_the_id_of_a_run_without_dials_is_what_it_was():
    assert rm.Run("ce", tune_on=1.0).id == rm.Run("ce").id
    assert rm.Run("rankmixup-auto", tune_on=0.5).id != rm.Run("rankmixup-auto").id


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: rm.Run("ce", tune_on=0.5),
            r'^tune_on must be left out unless a field of the method is "auto", got 0\.5 with CrossEntropy',
        ),
        (lambda: rm.Run("rankmixup-auto", tune_on=0.0), r"^tune_on must be a share above 0, at most 1, got 0\.0$"),
        (lambda: rm.Run("rankmixup-auto", data=Digits(protocol="release")), r"^margin of rankmixup-auto must not be auto with protocol"),
        (lambda: Focal(gamma="auto2"), r"^unknown Focal\.gamma 'auto2'; did you mean 'auto'"),
    ],
)
def test_what_cannot_be_tuned_is_refused_in_one_sentence(make, message):
    with unchecked(), pytest.raises(InvalidInput, match=message):
        make()


def test_nothing_may_be_left_on_one_side(tmp_path):
    with pytest.raises(InvalidInput, match=r"tune_on must leave validation samples on both sides, got 0\.999 of 400 samples"):
        rm.train(short("rankmixup-auto", tune_on=0.999), runs=tmp_path)


@pytest.mark.slow
def test_the_command_takes_auto(tmp_path, capsys):
    short_run = ["--model", "mlp", "--epochs", "1", "--data.train-size", "50", "--runs", str(tmp_path)]
    assert main(["train", "focal", "--gamma", "auto", "--tune-on", "0.5", *short_run, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["tuning"]["samples"] == 200
    assert list(result["tuning"]["dials"]) == ["gamma"]
    assert main(["train", "rankmixup-mrl", "--space", "log-odds", "--margin", "auto", "--show", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["run"]["method"]["margin"], shown["sources"]["method.margin"]) == ("auto", "given")
    assert main(["sweep", "rankmixup-mrl", "--margin", "1", "auto", "--seeds", "1", *short_run, "--json"]) == 0
    assert {each["setting"] for each in json.loads(capsys.readouterr().out)["ranked"]} == {"margin=1", "margin=auto"}
    assert main(["train", "focal", "--gamma", "often", *short_run]) == 2


@pytest.mark.dist
def test_two_processes_have_the_same_dial(tmp_path):
    command = [sys.executable, "-m", "rankmixup", "train", "rankmixup-auto", "--epochs", "12", "--model", "mlp", "--data.train-size", "100"]
    command += ["--accelerator", "cpu", "--devices", "2", "--runs", str(tmp_path), "--json"]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout)
    stored = StoredRun.open(tmp_path / result["id"])
    assert stored.history()[-1].dial["margin"] > -20.0
    content = torch.load(max(stored.checkpoints.glob("step-*.pt")), weights_only=True)
    numbers = [each["objective"]["_extra_state"][16 : 16 + 72].clone().view(torch.float64) for each in content["processes"]]
    assert len(numbers) == 2
    assert torch.equal(numbers[0], numbers[1])


@pytest.mark.slow
def test_where_the_posterior_is_known_the_true_calibration_error_falls(tmp_path):
    """Not that of the validation set alone: confidence against the true probability that the prediction is right."""
    data, true_error = Synthetic(train_size=700, separation=2.5), {}
    test = data.load().test
    posterior = data.posterior_logits(test.x).double().softmax(dim=1)
    for method in ("ce", "rankmixup-auto"):
        errors = []
        for seed in range(3):
            stored = rm.train(rm.Run(method, data=data, model="mlp", seed=seed, selection="last"), runs=tmp_path)
            logits = stored.scores("test").logits.double()
            right = posterior.gather(1, logits.argmax(dim=1, keepdim=True)).squeeze(1)
            errors.append((confidence(logits).mean() - right.mean()).abs().item())
        true_error[method] = sum(errors) / 3
    assert true_error["ce"] > 0.05
    assert true_error["rankmixup-auto"] < true_error["ce"] / 3


@pytest.mark.slow
@pytest.mark.parametrize(("classes", "batch"), [(10, 32), (10, 512), (100, 128), (1000, 32), (1000, 512)])
def test_it_does_not_collapse(classes, batch, tmp_path):
    """Accuracy at most 5 points below that of cross-entropy on average, from 10 to 1,000 classes and batches of 32 to 512."""
    data = Synthetic(num_classes=classes, train_size=max(1000, 4 * classes), val_size=1000, test_size=2000, separation=6.0)
    optimisation = rm.Optimisation(epochs=15, batch_size=batch, lr=0.05, milestones=(7, 11))
    accuracy = {"ce": 0.0, "rankmixup-auto": 0.0}
    for method in accuracy:
        for seed in range(3):
            run = rm.Run(method, data=data, model="mlp", optimisation=optimisation, seed=seed, selection="last")
            stored = rm.train(run, runs=tmp_path, watcher=At())  # which warns of an NLL that rises from almost nothing
            accuracy[method] += stored.result().metrics["test"]["accuracy"] / 3
    assert accuracy["ce"] > 3 / classes
    assert accuracy["rankmixup-auto"] > accuracy["ce"] - 0.05


@pytest.mark.parametrize(("method", "kept"), [("ce", "accuracy"), ("rankmixup-auto", "nll"), (RankMixupAuto(margin=0.0), "accuracy")])
def test_with_a_dial_the_epoch_of_lowest_nll_is_kept_unless_another_rule_is_given(method, kept):
    run = rm.Run(method)
    assert run.selection == kept
    assert run == rm.Run(method, selection=kept)
    assert rm.Run(method, selection="last").selection == "last"
    with unchecked(), pytest.raises(InvalidInput, match=r"unknown Run\.selection"):
        rm.Run(method, selection="")
