"""What may happen to a machine while a run trains."""

import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from filelock import FileLock

import rankmixup as rm
from rankmixup.cli.main import main
from rankmixup.data import Digits
from rankmixup.errors import InvalidInput, WorkFailed
from rankmixup.runs import StoredRun
from rankmixup.runs.checkpoint import Checkpoints
from rankmixup.training.optimisation import update
from studies.faults import killed
from tests.oracles import unchecked
from tests.training.runs import At, crash, same, short


def files(folder: Path) -> dict[Path, tuple[bytes, int]]:
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def stored(tmp_path) -> StoredRun:
    """Crashed in the third epoch, saved after every step."""
    with pytest.raises(KeyboardInterrupt):
        rm.train(short("crl"), runs=tmp_path, watcher=At(crash, epoch=2, step=2), checkpoint_every="1steps")
    return StoredRun.locate(tmp_path, short("crl"))


def test_a_damaged_newest_checkpoint_falls_back_says_so_and_loses_nothing(stored, tmp_path):
    newest = max(stored.checkpoints.glob("step-*.pt"))
    newest.write_bytes(newest.read_bytes()[:-20])
    before = min(stored.checkpoints.glob("step-*.pt"))
    watcher = At()
    resumed = rm.train(stored.run, runs=tmp_path, watcher=watcher)
    said = f"checkpoint {newest} is damaged: its content is not what its name says; going on from {before.name}, the one before"
    assert watcher.warnings[0] == said
    assert said in json.loads((stored.path / "log.jsonl").read_text().splitlines()[-1])["warnings"]
    assert same(rm.train(stored.run, runs=tmp_path / "whole"), resumed)


def test_without_a_good_checkpoint_nothing_is_touched(stored, tmp_path):
    for path in stored.checkpoints.glob("step-*.pt"):
        path.write_bytes(bytes(path.stat().st_size))
    before = files(stored.path)
    with pytest.raises(WorkFailed, match=r"no checkpoint in .* can be read, and none was removed"):
        rm.train(stored.run, runs=tmp_path)
    assert files(stored.path) == before


def test_a_full_disk_stops_training_with_one_sentence(stored, tmp_path, monkeypatch):
    before = {path: content for path, content in files(stored.checkpoints).items() if path.name.startswith("step")}

    def full(path: Path, content: memoryview) -> None:
        (path.parent / f".{path.name}.0123").touch()
        (path.parent / f".{path.name}.0123").unlink()
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("rankmixup.runs.checkpoint.write_atomic", full)
        with pytest.raises(WorkFailed, match=r"could not be written \(No space left on device\); the one before it is untouched"):
            rm.train(stored.run, runs=tmp_path, checkpoint_every="1steps")
    assert {path: content for path, content in files(stored.checkpoints).items() if path.name.startswith("step")} == before
    assert rm.train(stored.run, runs=tmp_path).finished


def test_a_diverging_run_names_step_and_term_and_keeps_its_last_good_checkpoint(tmp_path):
    run = rm.Run(
        "mixup", data=Digits(train_size=50), model="mlp", optimisation=rm.Optimisation(epochs=20, batch_size=16, lr=1e12, clip=0.0)
    )
    with pytest.raises(WorkFailed, match=r"loss of mixup must stay finite, got (nan|inf) in epoch \d+, step \d+; .* try a smaller lr"):
        rm.train(run, runs=tmp_path, checkpoint_every="1steps")
    stored = StoredRun.locate(tmp_path, run)
    assert stored.state == "interrupted"
    checkpoints = Checkpoints(stored.checkpoints, run.id)
    newest, complaints = checkpoints.newest()
    assert complaints == []
    assert all(value.isfinite().all() for value in checkpoints.load(newest)["model"].values())


def test_weights_that_are_not_finite_are_never_saved(stored, tmp_path, monkeypatch):
    """A gradient may be the first to be infinite."""
    before = files(stored.checkpoints)

    def overflowing(fabric, step, *rest):
        terms = update(fabric, step, *rest)
        next(step.parameters()).data[0, 0] = torch.inf
        return terms

    monkeypatch.setattr("rankmixup.training.loop.update", overflowing)
    with pytest.raises(WorkFailed, match=r"1.weight of the network must stay finite, which it is not in epoch 3, step 2; "):
        rm.train(stored.run, runs=tmp_path, checkpoint_every="1steps")
    assert files(stored.checkpoints) == before


def test_two_processes_do_not_train_one_run(stored, tmp_path):
    with FileLock(stored.path / "lock"):
        assert stored.state == "running"
        before = files(stored.path)
        with pytest.raises(InvalidInput, match=f"run {stored.path} must be trained by one process at a time, and another one trains it"):
            rm.train(stored.run, runs=tmp_path)
        assert files(stored.path) == before
    assert stored.state == "interrupted"


def test_a_run_that_trains_is_running_and_looking_does_not_disturb_it(tmp_path):
    states = []
    watcher = At(lambda: states.extend(StoredRun.locate(tmp_path, short()).state for _ in range(2)), epoch=1, step=1)
    assert rm.train(short(), runs=tmp_path, watcher=watcher).state == "finished"
    assert states == ["running", "running"]


def test_checkpoints_of_another_run_are_refused_and_nothing_is_touched(stored, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        rm.train(short("crl", seed=1), runs=tmp_path, watcher=At(crash, epoch=0, step=2), checkpoint_every="1steps")
    other = StoredRun.locate(tmp_path, short("crl", seed=1))
    shutil.rmtree(other.checkpoints)
    shutil.copytree(stored.checkpoints, other.checkpoints)
    newest, before = max(other.checkpoints.glob("step-*.pt")), files(other.path)
    with pytest.raises(InvalidInput) as caught:
        rm.train(other.run, runs=tmp_path)
    assert str(caught.value) == f"checkpoint {newest} must be of run {other.run.id}, it is of run '{stored.run.id}'"
    assert files(other.path) == before
    assert main(["train", "--resume", str(other.path)]) == 2


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"epoch": "two"}, "ValueError: epoch, steps_done, position, seconds are 'two'"),
        ({"steps_done": 99}, "ValueError: epoch, steps_done, position, seconds are 2, 99"),
        ({"seconds": float("nan")}, "ValueError: .*, nan"),
        ({"processes": []}, "ValueError: it has no states of processes"),
        ({"processes": [{}]}, "KeyError: 'terms'"),
        ({"processes": 5}, "ValueError: it has no states of processes"),
        ({"model": {}}, "ValueError: it has no weights"),
        ({"model": {"1.weight": 3}}, ""),
        ({"optimiser": {}}, ""),
        ({"optimiser": None}, ""),
    ],
)
def test_a_checkpoint_with_other_contents_under_a_true_name_is_refused_in_a_sentence(changes, reason, stored, tmp_path):
    checkpoints = Checkpoints(stored.checkpoints, stored.run.id)
    path, _ = checkpoints.newest()
    state = checkpoints.load(path)
    torch.save({**state, **changes}, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    path = path.rename(path.with_name(f"{path.name[:14]}{digest}.pt"))
    with unchecked(), pytest.raises(WorkFailed, match=f"checkpoint {path} does not fit its run .*{reason}"):
        rm.train(stored.run, runs=tmp_path)


@pytest.mark.parametrize("changes", [{"lr": 1e308}, {"weight_decay": 1e300}, {"lr": 1e30, "decay": 1e30, "milestones": (1,)}])
def test_numbers_beyond_float32_end_in_one_sentence(changes, tmp_path):
    optimisation = rm.Optimisation(**{"epochs": 2, "batch_size": 16, **changes})
    with pytest.raises(WorkFailed, match=r"lr and weight_decay must be numbers of float32, got|must stay finite"):
        rm.train(rm.Run("ce", data=Digits(train_size=50), model="mlp", optimisation=optimisation), runs=tmp_path)


def test_a_learning_rate_beyond_float32_is_no_traceback(tmp_path, capsys):
    assert main(["train", "ce", "--model", "mlp", "--lr", "1e308", "--runs", str(tmp_path)]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == "error: lr and weight_decay must be numbers of float32, got 1e+308 and 0.0005"


COMMAND = [sys.executable, "-m", "rankmixup", "train"]


def wait_for(condition, process: subprocess.Popen, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_sigterm_saves_the_demo_model_within_ten_seconds(tmp_path):
    command = [*COMMAND, "rankmixup-mndcg", "--epochs", "1000", "--runs", str(tmp_path), "--checkpoint-every", "3steps"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: any(tmp_path.glob("*/checkpoints/step-*.pt")), process)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert time.monotonic() - began < 10
    assert process.returncode == 143
    (path,) = tmp_path.iterdir()
    assert said.splitlines()[-1].endswith(f"; continue it with 'rankmixup train --resume {path}'")
    assert "Traceback" not in said


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ce", "crl", "rankmixup-mndcg"])
def test_kill_9_at_random_moments_loses_nothing(method, tmp_path):
    assert killed(method, 3, tmp_path).identical


@pytest.mark.dist
@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_that_dies_ends_the_other_with_one_error_that_names_it(victim, tmp_path):
    flags = ["ce", "--model", "resnet8", "--epochs", "1000", "--accelerator", "cpu", "--devices", "2", "--runs", str(tmp_path)]
    flags += ["--checkpoint-every", "10steps"]
    errors = tmp_path.parent / f"{tmp_path.name}.txt"
    with errors.open("w") as file:
        first = subprocess.Popen([*COMMAND, *flags], stderr=file)
        wait_for(lambda: any(tmp_path.glob("*/checkpoints/step-*.pt")), first)
        second = int(subprocess.run(["pgrep", "-P", str(first.pid)], capture_output=True, text=True, check=True).stdout.split()[0])
        os.kill((first.pid, second)[victim], signal.SIGKILL)
        began = time.monotonic()
        status = first.wait(timeout=60)
        while victim == 0 and Path(f"/proc/{second}").exists():
            assert time.monotonic() - began < 30
            time.sleep(0.1)
    assert time.monotonic() - began < 30
    assert status == (1 if victim else -signal.SIGKILL)
    said = [line for line in errors.read_text().splitlines() if line.startswith("error: ")]
    assert said == [f"error: process {victim} of 2 (counted from 0) is gone: it ended or cannot be reached"]
    assert "Traceback" not in errors.read_text()
    (path,) = tmp_path.iterdir()
    assert StoredRun.open(path).state == "interrupted"
    again = subprocess.Popen([*COMMAND, *flags], stderr=subprocess.PIPE, text=True)
    position = max(path.glob("checkpoints/step-*.pt")).name
    wait_for(lambda: max(path.glob("checkpoints/step-*.pt"), default=path).name > position, again)
    again.send_signal(signal.SIGTERM)
    assert "was stopped by SIGTERM" in again.communicate(timeout=60)[1]
    assert again.returncode == 143


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path):
    stored = StoredRun.locate(tmp_path, short())
    (stored.path / "metrics.csv").mkdir(parents=True)
    stored.create()
    with pytest.raises(WorkFailed, match=r"metrics\.csv could not be read or written \(Is a directory\)"):
        rm.train(short(), runs=tmp_path, accelerator="cpu")
