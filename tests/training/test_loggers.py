"""Trackers without a network. A tracker whose package is missing is skipped: the project does not need it."""

import json
import sys

import pytest

import rankmixup as rm
from rankmixup.cli.main import main
from rankmixup.errors import InvalidInput
from rankmixup.training import loggers
from tests.training.runs import EPOCHS, At, crash, same, short

# Their own dependencies warn of their own future.
pytestmark = pytest.mark.filterwarnings("ignore")


def interrupted_and_resumed(name: str, tmp_path):
    pytest.importorskip(name, reason=f"the extra {name} is not installed")
    with pytest.raises(KeyboardInterrupt):
        rm.train(short(), runs=tmp_path, watcher=At(crash, epoch=2), loggers=[name], checkpoint_every="4steps")
    return rm.train(short(), runs=tmp_path, loggers=[name], checkpoint_every="4steps")


@pytest.mark.slow
def test_tensorboard_has_every_epoch_once_after_a_resumption(tmp_path):
    stored = interrupted_and_resumed("tensorboard", tmp_path)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(stored.path / "tensorboard")).Reload()
    scalars = events.Scalars("val/ece")
    assert [event.step for event in scalars] == list(range(1, EPOCHS + 1))
    assert [event.value for event in scalars] == pytest.approx([record.val["ece"] for record in stored.history()], rel=1e-6)


@pytest.mark.slow
def test_mlflow_has_one_run_with_parameters_and_metrics(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    stored = interrupted_and_resumed("mlflow", tmp_path)
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{stored.path / 'mlflow' / 'mlflow.db'}")
    (found,) = client.search_runs([client.get_experiment_by_name("rankmixup").experiment_id])
    assert found.info.run_name == stored.run.id
    assert found.info.status == "FINISHED"
    assert found.data.params["method.name"] == "ce"
    values = {metric.step: metric.value for metric in client.get_metric_history(found.info.run_id, "val/ece")}
    assert values == {record.epoch: record.val["ece"] for record in stored.history()}


@pytest.mark.slow
def test_wandb_writes_below_the_run_and_says_nothing(tmp_path, monkeypatch, capfd):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    stored = interrupted_and_resumed("wandb", tmp_path)
    folders = sorted((stored.path / "wandb").glob(f"offline-run-*-{stored.run.id}"))
    assert len(folders) >= 1
    assert all((folder / f"run-{stored.run.id}.wandb").stat().st_size > 0 for folder in folders)
    assert capfd.readouterr().out == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", loggers.TRACKERS)
def test_a_tracker_changes_nothing_that_is_computed(name, tmp_path):
    pytest.importorskip(name, reason=f"the extra {name} is not installed")
    run = short("rankmixup-mndcg")
    assert same(rm.train(run, runs=tmp_path / "without"), rm.train(run, runs=tmp_path / "with", loggers=[name]))


@pytest.mark.parametrize("name", loggers.TRACKERS)
def test_a_missing_package_is_one_sentence_before_anything_is_written(name, tmp_path, monkeypatch):
    monkeypatch.setattr(loggers.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match=rf"^logger '{name}' needs the package {name}, .*: pip install 'rankmixup\[{name}\]'$"):
        rm.train(short(), runs=tmp_path, loggers=[name])
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_logger_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"^unknown logger 'tensorbord'; did you mean 'tensorboard'\?$"):
        rm.train(short(), runs=tmp_path, loggers=["tensorbord"])


def test_the_flag_is_understood_and_repeated(tmp_path, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(loggers, "check_loggers", asked.append)
    monkeypatch.setattr(sys.modules["rankmixup.training.train"], "check_loggers", asked.append)
    monkeypatch.setattr("rankmixup.training.loggers.open_loggers", lambda names, *_: asked.append(names) or [])
    arguments = ["train", "ce", "--model", "mlp", "--data.train-size", "50", "--epochs", "1", "--runs", str(tmp_path), "--json"]
    assert main([*arguments, "--log", "wandb", "mlflow"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "finished"
    assert [tuple(names) for names in asked] == [("wandb", "mlflow")] * 2
