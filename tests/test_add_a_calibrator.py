"""The page on adding a calibrator is true: found by its name or as a plug-in, in evaluations, and passes the contract."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.pages import blocks, run, run_pytest, write_package

pytestmark = pytest.mark.slow  # every test starts processes
PAGE = "guides/add-a-calibrator.md"
SCORES = """
import torch
from pathlib import Path
from rankmixup.evaluation import Scores

rng = torch.Generator().manual_seed(0)
for name in ("val", "test"):
    logits = torch.randn(2000, 3, generator=rng)
    target = torch.multinomial((logits / 2).softmax(1), 1, generator=rng).squeeze(1)
    Scores(logits, target).write(Path(f"{name}.npz"))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return write_package(PAGE, tmp_path, "rankmixup_bcts.py", "usage.py", "test_bcts.py")


def test_the_calibrator_is_found_by_its_name(package: Path) -> None:
    run(package, "usage.py")
    (package / "usage.py").unlink()  # no test of the package
    assert re.search(r"\b1\d passed", run_pytest(package))


def test_the_calibrator_needs_no_package(tmp_path: Path) -> None:
    (tmp_path / "rankmixup_bcts.py").write_text(blocks(PAGE, "python")[0], encoding="utf-8")
    run(tmp_path, "-c", SCORES)
    listing, evaluate = map(shlex.split, blocks(PAGE, "sh")[0].splitlines())
    listed = {each["name"]: each["summary"] for each in json.loads(run(tmp_path, "-m", *listing, "--json"))["calibrators"]}
    assert listed["bias-corrected-temperature"] == "One temperature for all classes and one bias for each class"
    calibration = json.loads(run(tmp_path, "-m", *evaluate, "--json"))["calibration"]
    assert (calibration["method"], calibration["converged"]) == ("bias-corrected-temperature", True)
    assert calibration["parameters"]["temperature"] == pytest.approx(2, abs=0.3)
    assert calibration["metrics"]["nll"]["value"] < 1.1
    code = f"from rankmixup.cli.main import main; assert main({[*evaluate[1:], '--json', '--fail-if', 'calibrated.nll>1']}) == 1"
    assert json.loads(run(tmp_path, "-c", code))["failed"] == ["calibrated.nll>1"]
