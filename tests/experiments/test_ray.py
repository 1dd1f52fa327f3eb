import os
import signal
import sys
from pathlib import Path

import pytest

from rankmixup.errors import InvalidInput
from rankmixup.experiments import Task, Workplace, run_tasks
from tests.experiments.test_runner import kill_and_repeat, logged_epochs, place, saved_lines, short, wait_for_epochs


def test_without_ray_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InvalidInput, match=r"--on ray needs Ray: pip install 'rankmixup\[ray\]'"):
        list(run_tasks([Task(short())], Workplace(tmp_path), on="ray"))


@pytest.fixture
def ray():
    """A cluster of one machine with two cores."""
    ray = pytest.importorskip("ray", exc_type=ImportError)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": {"PYTHONWARNINGS": "ignore"}})
    yield ray
    ray.shutdown()


@pytest.mark.dist
@pytest.mark.filterwarnings("ignore")
def test_runs_on_a_cluster_survive_one_another_and_the_loss_of_a_worker(tmp_path, ray):
    long, diverging = Task(short(epochs=150)), Task(short(lr=1e30, clip=0.0))
    tasks = [long, diverging, Task(short()), Task(short(seed=1))]
    killed, ends = False, []
    for event in run_tasks(tasks, place(tmp_path), on="ray"):
        if event.kind in ("finished", "failed"):
            ends.append(event)
        if not killed:
            wait_for_epochs(tmp_path, long.run)
            os.kill(holder_of_lock(tmp_path / long.run.id / "lock"), signal.SIGKILL)
            before, killed = saved_lines(tmp_path, long.run), True
    assert sorted(event.task.run.id for event in ends) == sorted(task.run.id for task in tasks)
    assert [event.task for event in ends if event.kind == "failed"] == [diverging]
    assert logged_epochs(tmp_path, long.run) == list(range(1, 151))
    assert saved_lines(tmp_path, long.run)[: len(before)] == before


@pytest.mark.dist
def test_a_killed_command_is_taken_up_again(tmp_path):
    pytest.importorskip("ray", exc_type=ImportError)
    kill_and_repeat(tmp_path, "ray")


def holder_of_lock(path):
    """The process that holds a lock, as Linux tells it."""
    inode = str(path.stat().st_ino)
    (pid,) = {line.split()[4] for line in Path("/proc/locks").read_text().splitlines() if line.split()[5].endswith(f":{inode}")}
    return int(pid)
