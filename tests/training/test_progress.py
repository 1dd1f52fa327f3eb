import io

import pytest
from rich.console import Console

import rankmixup as rm
from rankmixup.training import ProgressWatcher, Watcher, progress


def record(epoch, tau=0.25):
    return {
        "epoch": epoch,
        "train": {"loss": 0.5, "ce": 0.4},
        "val": {"accuracy": 0.931, "ece": 0.021},
        "ranking": {"tau": tau},
    }


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def watched(width=200, terminal=False):
    screen = io.StringIO()
    return ProgressWatcher(Console(file=screen, width=width, force_terminal=terminal, legacy_windows=False)), screen


def run(epochs):
    return rm.Run("ce", model="mlp", optimisation=rm.Optimisation(epochs=epochs))


def test_plain_lines_say_where_how_long_and_how_good(clock):
    watcher, screen = watched()
    the_run = run(4)
    watcher.start(the_run, 1, 10)
    watcher.step(1, 5, 0.7)  # resumed within an epoch
    clock[0] = 50.0
    watcher.step(1, 10, 0.7)
    watcher.epoch(record(2))  # 5 steps in 50 s, 20 are left
    watcher.epoch(record(3, tau=None))
    watcher.stop()
    title, estimate, second, third = screen.getvalue().splitlines()
    assert title == f"ce on digits, mlp, seed 0: run {the_run.id}, resumed after epoch 1"
    assert estimate == "about 0:03:20 for 4 epochs of 10 steps, 10 s each, besides validation"
    assert second == "epoch 2/4  0:03:20 left  loss 0.500  ce 0.400  val acc 93.1 %  ECE 2.1 %  tau 0.25"
    assert third.endswith("ECE 2.1 %")


def test_lines_are_few_for_many_short_epochs_and_come_within_long_ones(clock):
    watcher, screen = watched()
    watcher.start(run(200), 0, 10)
    for epoch in range(1, 201):
        watcher.epoch(record(epoch))
    assert len(screen.getvalue().splitlines()) == 1 + 10
    watcher, screen = watched()
    watcher.start(run(2), 0, 1000)
    for step in range(1, 1000):
        clock[0] += 1.0
        watcher.step(0, step, 0.6)
    lines = screen.getvalue().splitlines()[2:]
    assert len(lines) == 3
    assert lines[0] == "epoch 1/2 step 301/1000  0:28:19 left  loss 0.600"


@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
@pytest.mark.parametrize(
    ("steps", "seconds", "said"),
    [
        (1000, [9.0, 1.0, 1.0, 1.0, 1.0], "about 0:33:17 for 2 epochs of 1000 steps, 1 s each, besides validation"),  # after step 3
        (3, [9.0, 0.5, 0.5], "about 0:00:02 for 2 epochs of 3 steps, 0.5 s each, besides validation"),  # at the epoch's end
        (1, [9.0], "about 0:00:09 for 2 epochs of 1 steps, 9 s each, besides validation"),  # no other step to measure
    ],
)
def test_how_long_it_takes_is_said_once_within_the_first_epoch_without_its_first_step(clock, steps, seconds, said, terminal):
    watcher, screen = watched(terminal=terminal)
    watcher.start(run(2), 0, steps)
    for epoch in range(2):
        for step, took in enumerate(seconds, start=1):
            clock[0] += took
            watcher.step(epoch, step, 0.6)
        assert screen.getvalue().count("about") == 1
        assert said in screen.getvalue()
        watcher.epoch(record(epoch + 1))
    watcher.stop()


def test_the_bar_of_a_terminal_shows_step_time_and_figures_in_80_columns(clock):
    watcher, screen = watched(width=80, terminal=True)
    watcher.start(run(30), 0, 17)
    watcher.epoch(record(11))
    clock[0] = 30.0
    watcher.step(11, 5, 0.512)
    watcher.stop()
    last = screen.getvalue().splitlines()[-2]
    assert "epoch 12/30 step 5/17  0:31:48 left  loss 0.512  val acc 93.1 %  " in last  # 5 steps in 30 s, 318 are left
    assert "━" in last.partition("epoch")[0].rpartition("\r")[2]


def test_warnings_are_lines_of_their_own_and_brackets_no_markup():
    watcher, screen = watched(width=20)
    watcher.warn("run a[b] cannot be what it should be")
    assert screen.getvalue() == "warning: run a[b] cannot be what it should be\n"
    with pytest.warns(UserWarning, match="^so it is$"):
        Watcher().warn("so it is")
