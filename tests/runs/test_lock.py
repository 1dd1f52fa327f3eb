import os
import signal
import subprocess
import sys
import time

import pytest

from rankmixup.errors import InvalidInput, RunBusy
from rankmixup.runs.lock import hold_lock, is_locked

HOLD = """
import os, sys, time
from pathlib import Path
from rankmixup.runs.lock import hold_lock
with hold_lock(Path(sys.argv[1])):
    child = os.fork()
    if child:
        print(child, flush=True)
    time.sleep(60)
"""


def test_one_holds_it_at_a_time(tmp_path):
    assert not is_locked(tmp_path)
    assert list(tmp_path.iterdir()) == []  # asking leaves nothing behind
    with hold_lock(tmp_path):
        assert is_locked(tmp_path)
        with pytest.raises(RunBusy, match="must be trained by one process at a time, and another one trains it"), hold_lock(tmp_path):
            pass
        assert is_locked(tmp_path)
    assert not is_locked(tmp_path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_the_lock_ends_with_its_process_whatever_it_has_forked(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    child = int(holder.stdout.readline())
    try:
        assert is_locked(tmp_path)
        holder.kill()
        holder.wait()
        os.kill(child, 0)  # it lives
        deadline = time.monotonic() + 2
        while is_locked(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not is_locked(tmp_path)
    finally:
        os.kill(child, signal.SIGKILL)
        holder.stdout.close()


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "lock").mkdir()  # as root no permission is ever missing
    with pytest.raises(InvalidInput, match=f"run {tmp_path} must be a folder that can be written to and locked"), hold_lock(tmp_path):
        pass
