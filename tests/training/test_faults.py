"""What may happen to a machine while a run trains."""

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import rankmixup as rm
from rankmixup.data import Digits
from rankmixup.errors import InvalidInput, WorkFailed
from rankmixup.runs import StoredRun
from rankmixup.training.checkpoint import Checkpoints
from rankmixup.training.update import update
from studies.faults import killed
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
        patched.setattr("rankmixup.training.checkpoint.write_atomic", full)
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
    checkpoints = Checkpoints(stored.checkpoints)
    newest, complaints = checkpoints.newest()
    assert complaints == []
    assert all(value.isfinite().all() for value in checkpoints.load(newest)["model"].values())


def test_weights_that_are_not_finite_are_never_saved(stored, tmp_path, monkeypatch):
    """A gradient may be the first to be infinite."""
    before = files(stored.checkpoints)

    def overflowing(fabric, step, *rest):
        figures = update(fabric, step, *rest)
        next(step.parameters()).data[0, 0] = torch.inf
        return figures

    monkeypatch.setattr("rankmixup.training.trainer.update", overflowing)
    with pytest.raises(WorkFailed, match=r"1.weight of the network must stay finite, which it is not in epoch 3, step 2; "):
        rm.train(stored.run, runs=tmp_path, checkpoint_every="1steps")
    assert files(stored.checkpoints) == before


def test_two_processes_do_not_train_one_run(stored, tmp_path):
    with (stored.path / "lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
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
