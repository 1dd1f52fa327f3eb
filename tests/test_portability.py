"""What needs no POSIX must work without it."""

import subprocess
import sys

import pytest

import rankmixup as rm
from tests.paper.stored import store

EVALUATE = """
import sys
sys.modules["fcntl"] = sys.modules["resource"] = None
import rankmixup as rm
from rankmixup.cli.main import main
import rankmixup.experiments, rankmixup.reports.html, rankmixup.training
sys.exit(main(["evaluate", sys.argv[1], "--replicates", "2", "--json"]))
"""


@pytest.mark.slow
def test_a_run_is_evaluated_without_fcntl(tmp_path):
    stored = store(tmp_path, rm.Run("ce"))
    done = subprocess.run([sys.executable, "-c", EVALUATE, str(stored.path)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert '"metrics"' in done.stdout
