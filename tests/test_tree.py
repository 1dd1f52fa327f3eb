"""What only the paper needs stands by itself: nothing but its own command and pages imports it."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

BLOCKED = textwrap.dedent(
    """
    import importlib, pkgutil, sys

    class Block:
        def find_spec(self, name, path=None, target=None):
            if name == "rankmixup.paper" or name.startswith("rankmixup.paper."):
                raise ImportError(f"{name} is not there")

    sys.meta_path.insert(0, Block())
    import rankmixup
    from rankmixup.cli.main import main

    assert main(["evaluate", sys.argv[1], "--replicates", "10", "--json"]) == 0
    assert main(["list", "methods"]) == 0
    assert main(["sweep", "ce", "--dry-run"]) == 0
    for module in pkgutil.walk_packages(rankmixup.__path__, "rankmixup."):
        if not module.name.startswith("rankmixup.paper"):
            try:
                importlib.import_module(module.name)
            except ImportError:
                print("needs the paper:", module.name)
    """
)


@pytest.mark.slow
def test_everything_but_reproduce_works_without_the_paper(tmp_path):
    np.savez(tmp_path / "a.npz", logits=np.random.default_rng(0).normal(size=(50, 3)), labels=np.arange(50) % 3)
    done = subprocess.run([sys.executable, "-c", BLOCKED, str(tmp_path / "a.npz")], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    needing = [line.partition(": ")[2] for line in done.stdout.splitlines() if line.startswith("needs the paper")]
    # If this fails: what is generic must not import rankmixup.paper; move what it needs to a lower layer.
    assert needing == ["rankmixup.reports.figures.scorecard", "rankmixup.reports.results", "rankmixup.reports.scorecard"]
