import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rankmixup.experiments import Task, Workplace, run_tasks
from rankmixup.experiments.estimate import cost_of
from rankmixup.experiments.runner import LOSSES, Event, attempt
from rankmixup.experiments.workers import _serve, visible_gpus
from rankmixup.hardware import Hardware
from rankmixup.methods import CrossEntropy, LabelSmoothing
from rankmixup.runs import Optimisation, Run, StoredRun
from tests.oracles import unchecked
from tests.paper.stored import store


def short(seed=0, epochs=1, method=None, **optimisation):
    recipe = Optimisation(epochs=epochs, milestones=(), batch_size=350, **optimisation)
    return Run(method or CrossEntropy(), data="digits", model="mlp", optimisation=recipe, seed=seed)


def logged_epochs(runs, run):
    return [json.loads(line)["epoch"] for line in (runs / run.id / "log.jsonl").read_text().splitlines()]


def test_an_attempt_trains_and_shows_unknown_samples(tmp_path):
    task = Task(short(), ("synthetic",))
    assert not task.done(tmp_path)
    assert attempt(task, Workplace(tmp_path, hardware=Hardware("cpu"))).kind == "finished"
    assert task.done(tmp_path)
    assert StoredRun.locate(tmp_path, task.run).predictions_path("ood-synthetic").exists()


def test_what_is_wrong_with_a_run_is_one_sentence(tmp_path, monkeypatch):
    outcome = attempt(Task(Run("ce", data="cifar10")), Workplace(tmp_path / "runs", tmp_path / "data", hardware=Hardware("cpu")))
    assert outcome.kind == "failed"
    assert "cifar10 must have" in outcome.reason

    def broken(*arguments, **options):
        raise ZeroDivisionError("of something")

    monkeypatch.setattr("rankmixup.experiments.runner.train_at", broken)
    assert attempt(Task(short()), Workplace(tmp_path)).reason == "ZeroDivisionError: of something"


def test_one_process_at_a_time(tmp_path, monkeypatch):
    run, other = short(), short(seed=1)
    monkeypatch.setattr("rankmixup.experiments.runner._PATIENCE", 0.1)
    place, stored = Workplace(tmp_path, hardware=Hardware("cpu")), StoredRun.locate(tmp_path, run)
    stored.create()
    with stored.locked():
        assert attempt(Task(run), place).kind == "waiting"
        assert attempt(Task(other), place).kind == "finished"
    assert not stored.finished
    assert attempt(Task(run), place).kind == "finished"


def test_what_is_done_needs_no_worker(tmp_path, monkeypatch):
    task = Task(short())
    attempt(task, Workplace(tmp_path, hardware=Hardware("cpu")))
    monkeypatch.setattr("rankmixup.experiments.workers.on_workers", None)
    assert [(event.kind, event.task) for event in run_tasks([task], Workplace(tmp_path))] == [("finished", task)]


def test_gpus_are_those_that_are_allowed(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    assert visible_gpus() == ["3", "5"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert visible_gpus() == ["0", "1"]
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,-1,5")
    assert visible_gpus() == ["3"]


@pytest.mark.parametrize("listed", ["-1", "", "0", "NoDevFiles"])
def test_without_a_gpu_there_is_none_whatever_is_listed(listed, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    assert visible_gpus() == []


def test_a_worker_starts_on_a_system_without_process_groups(monkeypatch):
    monkeypatch.delattr("os.setpgrp")
    monkeypatch.setattr("rankmixup.experiments.workers._exit_with_parent", lambda: None)
    ours, theirs = multiprocessing.Pipe()
    ours.close()  # there is no task
    _serve(theirs, Workplace(Path("runs")), None)


@pytest.mark.slow
def test_a_failed_run_does_not_stop_the_rest(tmp_path):
    diverging = short(lr=1e30, clip=0.0)
    tasks = [Task(diverging), Task(short()), Task(short(method=LabelSmoothing()))]
    events = list(run_tasks(tasks, Workplace(tmp_path, hardware=Hardware("cpu")), workers=2))
    ends = {event.task: event for event in events if event.kind in ("finished", "failed")}
    assert len(ends) == len([event for event in events if event.kind in ("finished", "failed")]) == 3
    assert "must stay finite" in ends[tasks[0]].reason
    assert all(task.done(tmp_path) for task in tasks[1:])
    assert multiprocessing.active_children() == []


@pytest.mark.slow
def test_a_run_whose_worker_is_killed_is_finished_by_another(tmp_path):
    tasks = [Task(short(seed=seed, epochs=100)) for seed in range(2)]
    losses, before = 0, []
    for event in run_tasks(tasks, place(tmp_path), workers=1):
        if event.kind == "started" and losses == 0:
            wait_for_epochs(tmp_path, event.task.run)
            os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)
            before = saved_lines(tmp_path, event.task.run)
        losses += event.kind == "lost"
    assert losses == 1
    assert all(task.done(tmp_path) for task in tasks)
    assert all(logged_epochs(tmp_path, task.run) == list(range(1, 101)) for task in tasks)
    assert saved_lines(tmp_path, tasks[0].run)[: len(before)] == before


@pytest.mark.slow
def test_a_run_that_kills_its_workers_is_given_up(tmp_path):
    tasks = [Task(short(epochs=10_000)), Task(short())]
    ends = {}
    for event in run_tasks(tasks, Workplace(tmp_path, hardware=Hardware("cpu")), workers=1):
        if event.kind == "started" and event.task == tasks[0]:
            multiprocessing.active_children()[0].kill()
        if event.kind in ("finished", "failed"):
            ends[event.task] = event
    assert f"{LOSSES} times" in ends[tasks[0]].reason
    assert tasks[1].done(tmp_path)


SCRIPT = """
import sys
from pathlib import Path
from rankmixup.experiments import Task, run_tasks
from tests.experiments.test_runner import place, short
if __name__ == "__main__":
    tasks = [Task(short(seed=seed, epochs=100)) for seed in range(4)]
    for event in run_tasks(tasks, place(Path(sys.argv[1])), on=sys.argv[2], workers=2):
        print(event.kind, event.task.run.id, flush=True)
"""


def command(tmp_path, on="local"):
    script = tmp_path / "command.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])}
    return subprocess.Popen([sys.executable, str(script), str(tmp_path / "runs"), on], env=environment, stdout=subprocess.PIPE, text=True)


def place(runs):
    """Where every epoch is saved."""
    return Workplace(runs, hardware=Hardware("cpu"), checkpoint_every="2steps")


def wait_for_epochs(runs, run, epochs=5):
    until = time.monotonic() + 120
    while not (runs / run.id / "log.jsonl").exists() or len(logged_epochs(runs, run)) < epochs:
        assert time.monotonic() < until, f"run {run.id} did not come to epoch {epochs}"
        time.sleep(0.02)


def saved_lines(runs, run):
    """The log but for what a crash may take: each line has the time that training had taken, so none is written twice alike."""
    return (runs / run.id / "log.jsonl").read_text().splitlines()[:-2]


def kill_and_repeat(tmp_path, on):
    """A command that is killed leaves nothing behind, and loses nothing when it is given again."""
    runs, planned = tmp_path / "runs", [short(seed=seed, epochs=100) for seed in range(4)]
    first = command(tmp_path, on)
    wait_for_epochs(runs, planned[0])
    first.kill()
    first.communicate()
    until = time.monotonic() + 60
    while any(StoredRun.locate(runs, run).state == "running" for run in planned):  # its workers end with it
        assert time.monotonic() < until
        time.sleep(0.1)
    before = {run: saved_lines(runs, run) for run in planned if (runs / run.id / "log.jsonl").exists()}
    second = command(tmp_path, on)
    output, _ = second.communicate(timeout=300)
    assert second.returncode == 0
    assert sorted(line.split()[1] for line in output.splitlines() if line.startswith("finished")) == sorted(run.id for run in planned)
    assert all(logged_epochs(runs, run) == list(range(1, 101)) for run in planned)
    assert all(saved_lines(runs, run)[: len(lines)] == lines for run, lines in before.items())  # nothing was trained again


@pytest.mark.slow
def test_a_killed_command_is_taken_up_again(tmp_path):
    kill_and_repeat(tmp_path, "local")


@pytest.mark.slow
def test_two_commands_share_the_work(tmp_path):
    both = [command(tmp_path) for _ in range(2)]
    outputs = [each.communicate(timeout=300)[0] for each in both]
    assert [each.returncode for each in both] == [0, 0]
    for run in (short(seed=seed, epochs=100) for seed in range(4)):
        assert all(f"finished {run.id}" in output for output in outputs)
        assert logged_epochs(tmp_path / "runs", run) == list(range(1, 101))


@pytest.mark.parametrize("name", ["run.json", "result.json"])
def test_a_damaged_run_fails_and_the_others_go_on(name, tmp_path, monkeypatch):
    damaged, done, missing = (Task(short(seed=seed)) for seed in range(3))
    for task in (damaged, done):
        store(tmp_path, task.run)
    (tmp_path / damaged.run.id / name).write_text("[]")
    monkeypatch.setattr(
        "rankmixup.experiments.workers.on_workers", lambda tasks, place, number: (Event("finished", task) for task in tasks)
    )
    with unchecked():
        failed, *finished = run_tasks([damaged, done, missing], place(tmp_path))
    assert (failed.kind, failed.task) == ("failed", damaged)
    assert name in failed.reason
    assert [(event.kind, event.task) for event in finished] == [("finished", done), ("finished", missing)]
    with unchecked():
        cost = cost_of([damaged, done, missing], tmp_path, "core")
    assert (cost.runs, cost.done, cost.damaged) == (3, 1, 1)
    assert "1 runs that cannot be read" in cost.assumptions
