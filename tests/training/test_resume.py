"""A run that was interrupted ends as if it had not been."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import rankmixup as rm
from rankmixup.cli.main import main
from rankmixup.data import Synthetic
from rankmixup.errors import Interrupted, InvalidInput
from rankmixup.runs import StoredRun
from rankmixup.runs.checkpoint import load_checkpoint
from tests.training.runs import EPOCHS, STEPS, At, crash, history, logits, same, short, with_dropout


def newest(stored: StoredRun) -> dict:
    return load_checkpoint(max(stored.checkpoints.glob("step-*.pt")), stored.run.id)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> StoredRun:
    return rm.train(short("mixup"), runs=tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("method", ["crl", "rankmixup-mndcg"])
def test_a_run_that_crashed_again_and_again_ends_as_if_it_had_not(method, tmp_path, monkeypatch):
    """With dropout, so that torch's global generator counts too; saved after every second step."""
    monkeypatch.setattr("rankmixup.runs.run.build_model", with_dropout)
    whole = rm.train(short(method), runs=tmp_path / "whole")
    crashed = StoredRun.locate(tmp_path / "crashed", short(method))
    for epoch, step in ((0, 2), (0, STEPS), (1, None), (1, 1), (1, STEPS), (2, 3), (EPOCHS, None)):
        with pytest.raises(KeyboardInterrupt):
            rm.train(short(method), runs=tmp_path / "crashed", watcher=At(crash, epoch=epoch, step=step), checkpoint_every="2steps")
        assert crashed.state == "interrupted"
    assert same(whole, rm.train(short(method), runs=tmp_path / "crashed"))
    assert crashed.state == "finished"


def test_an_epoch_is_resumed_at_its_step(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        rm.train(short(), runs=tmp_path, watcher=At(crash, epoch=1, step=3), checkpoint_every="1steps")
    state = newest(StoredRun.locate(tmp_path, short()))
    assert (state["epoch"], state["steps_done"], state["position"]) == (1, 2, STEPS + 2)
    assert len(state["processes"]) == 1
    assert {name: len(values) for name, values in state["processes"][0]["terms"].items()} == {"loss": 2}
    assert (state["best"]["epoch"], state["best"]["val"]["accuracy"]) == (1, pytest.approx(state["best"]["val"]["accuracy"]))


def test_by_default_a_second_of_training_is_saved_only_at_its_end(tmp_path):
    positions = []

    class Looks(At):
        def epoch(self, record) -> None:
            positions.append([path.name for path in StoredRun.locate(tmp_path, short()).checkpoints.iterdir()])

    stored = rm.train(short(), runs=tmp_path, watcher=Looks())
    assert positions == [[]] * EPOCHS
    assert newest(stored)["position"] == EPOCHS * STEPS


def test_time_is_counted_from_the_last_checkpoint(tmp_path, monkeypatch):
    clock = iter(range(0, 100_000, 40))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    saved = []
    monkeypatch.setattr("rankmixup.training.loop.save_checkpoint", lambda state: (saved.append(state.position), crash())[0])
    with pytest.raises(KeyboardInterrupt):
        rm.train(short(), runs=tmp_path, checkpoint_every="2min")
    # Asked once when training and once when the epoch begins, then in every step: 40 s each.
    assert saved == [2]


@pytest.mark.parametrize(("number", "step"), [(signal.SIGTERM, 2), (signal.SIGINT, STEPS), (signal.SIGTERM, None)])
def test_a_signal_saves_and_stops(number, step, whole, tmp_path):
    before = signal.getsignal(number)
    watcher = At(lambda: os.kill(os.getpid(), number), epoch=1, step=step)
    with pytest.raises(Interrupted) as caught:
        rm.train(short("mixup"), runs=tmp_path, watcher=watcher)
    stopped = StoredRun.locate(tmp_path, short("mixup"))
    where = "epoch 1" if step is None else f"epoch 2, step {step}"
    assert str(caught.value) == (
        f"run {stopped.path} was stopped by {number.name} and saved after {where}; "
        f"continue it with 'rankmixup train --resume {stopped.path}'"
    )
    assert caught.value.exit_status == 128 + number
    assert newest(stopped)["position"] == STEPS + (step or 0)
    assert signal.getsignal(number) is before
    assert same(whole, rm.train(short("mixup"), runs=tmp_path))


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ('echo "$@" > "$(dirname "$0")/called"', "SLURM has requeued job 17"),
        ("echo not allowed >&2; exit 1", "SLURM could not requeue job 17 (not allowed)"),
        (None, "SLURM could not requeue job 17 ([Errno 2] No such file or directory: 'scontrol')"),
    ],
)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_under_slurm_the_job_is_requeued(script, said, number, tmp_path, monkeypatch):
    fake = tmp_path / "bin" / "scontrol"
    fake.parent.mkdir()
    if script is not None:
        fake.write_text(f"#!/bin/sh\n{script}\n")
        fake.chmod(0o755)
        monkeypatch.setenv("PATH", f"{fake.parent}:/usr/bin:/bin")
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    with pytest.raises(Interrupted) as caught:
        rm.train(short(), runs=tmp_path, watcher=At(lambda: os.kill(os.getpid(), number), step=1))
    assert str(caught.value).endswith(f"'; {said}")
    assert caught.value.exit_status == 128 + number
    if said.startswith("SLURM has"):
        assert (tmp_path / "bin" / "called").read_text() == "requeue 17\n"


def test_a_users_interrupt_is_not_requeued(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    with pytest.raises(Interrupted) as caught:
        rm.train(short(), runs=tmp_path, watcher=At(lambda: os.kill(os.getpid(), signal.SIGINT), step=1))
    assert "SLURM" not in str(caught.value)


def test_flags_that_change_a_run_are_refused(tmp_path, capsys):
    with pytest.raises(KeyboardInterrupt):
        rm.train(short("mixup"), runs=tmp_path, watcher=At(crash, step=2))
    path = str(tmp_path / short("mixup").id)
    assert main(["train", "--resume", path, "--lr", "0.05", "--mixer.alpha", "3", "--seed", "0"]) == 2
    assert capsys.readouterr().err == f"error: run {path} cannot change: method.mixer.alpha 0.2 -> 3.0, optimisation.lr 0.1 -> 0.05\n"
    assert main(["train", "--resume", path, "--lr", "0.1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "finished"


def test_any_field_may_differ():
    stored = StoredRun(Path("runs/x"), short())
    other = dataclasses.replace(short().optimisation, epochs=5)
    with pytest.raises(InvalidInput, match=r"run runs/x cannot change: data.name digits -> synthetic, .*epochs 3 -> 5, seed 0 -> 1"):
        stored.refuse_changes(rm.Run("ce", Synthetic(), "mlp", other, seed=1))
    stored.refuse_changes(short())


@pytest.mark.dist
@pytest.mark.parametrize(("before", "after"), [(2, 2), (1, 2), (2, 1)])
def test_a_run_goes_on_with_any_number_of_processes(before, after, tmp_path):
    def command(devices: int, folder: str) -> list[str]:
        flags = ["--data.train-size", "101", "--batch-size", "8", "--epochs", "3", "--model", "resnet8", "--accelerator", "cpu"]
        return [sys.executable, "-m", "rankmixup", "train", "crl", *flags, "--devices", str(devices), "--runs", str(tmp_path / folder)]

    stop = "import os, signal, sys; import rankmixup.training.loop as t; from rankmixup.__main__ import main\n"
    stop += "check = t.TrainingLoop.check\n"
    stop += "def stopped(self, *a, **k):\n"
    stop += "    if self.state.position >= 20 and self.fabric.is_global_zero: os.kill(os.getpid(), signal.SIGTERM)\n"
    stop += "    return check(self, *a, **k)\n"
    stop += "t.TrainingLoop.check = stopped; sys.exit(main())\n"
    script = tmp_path / "stop.py"
    script.write_text(stop)
    first = [sys.executable, str(script), *command(before, "resumed")[3:]]
    done = subprocess.run(first, capture_output=True, text=True, timeout=120)
    assert done.returncode == 143, done.stderr
    assert done.stderr.count("was stopped by SIGTERM and saved after epoch 2, step ") == 1, done.stderr
    assert "Traceback" not in done.stderr
    done = subprocess.run(command(after, "resumed"), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (resumed,) = (StoredRun.open(path) for path in (tmp_path / "resumed").iterdir())
    sentence = f"goes on with {after} processes instead of {before}: not bit for bit as before"
    assert done.stderr.count(sentence) == (before != after)
    assert (sentence in (resumed.path / "log.jsonl").read_text()) == (before != after)
    assert len(history(resumed)) == 3
    if before == after:
        subprocess.run(command(before, "whole"), capture_output=True, check=True, timeout=120)
        (whole,) = (StoredRun.open(path) for path in (tmp_path / "whole").iterdir())
        assert same(whole, resumed)
    assert logits(resumed).shape[1] == 10
