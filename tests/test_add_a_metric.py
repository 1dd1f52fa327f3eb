"""The page on adding a metric is true: found by its name or as a plug-in, in evaluations and conditions, and passes the contract."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.pages import blocks, run, run_pytest, write_package

pytestmark = pytest.mark.slow  # every test starts processes
PAGE = "guides/add-a-metric.md"
SCORES = """
import torch
from pathlib import Path
from rankmixup.evaluation import Scores

rng = torch.Generator().manual_seed(0)
logits = torch.randn(300, 3, generator=rng)
Scores(logits, torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)).write(Path("test.npz"))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return write_package(PAGE, tmp_path, "rankmixup_balanced.py", "usage.py", "test_balanced.py")


def test_the_metric_is_found_by_its_name(package: Path) -> None:
    run(package, "usage.py")
    (package / "usage.py").unlink()  # no test of the package
    assert re.search(r"\b5 passed", run_pytest(package))


def test_the_metric_needs_no_package(tmp_path: Path) -> None:
    (tmp_path / "rankmixup_balanced.py").write_text(blocks(PAGE, "python")[0], encoding="utf-8")
    run(tmp_path, "-c", SCORES)
    listing, evaluate, failing = map(shlex.split, blocks(PAGE, "sh")[0].splitlines())
    assert "balanced accuracy, 0 to 1, higher is better" in run(tmp_path, "-m", *listing)
    report = json.loads(run(tmp_path, "-m", *evaluate))
    found = report["metrics"]["balanced_accuracy"]
    assert 0.3 < found["low"] < found["value"] < found["high"] < 0.7
    assert (report["failed"], found["floor"]) == ([], None)
    code = f"from rankmixup.cli.main import main; assert main({[*failing[1:], '--json']}) == 1"
    assert json.loads(run(tmp_path, "-c", code))["failed"] == ["balanced_accuracy<70%:high"]
