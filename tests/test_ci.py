"""The workflow of docs/guides/ci.md passes a good model and fails a bad one: its shell lines are executed."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.pages import blocks, execute

PAGE = "guides/ci.md"
yaml = pytest.importorskip("yaml")


@pytest.fixture(scope="module")
def steps() -> dict[str, str]:
    """Shell lines by name of the step."""
    (text,) = blocks(PAGE, "yaml")
    return {step["name"]: step["run"] for step in yaml.safe_load(text)["jobs"]["calibration"]["steps"] if "name" in step}


@pytest.fixture
def shell(tmp_path):
    """Runs lines as a step does; `gh` writes down what it is asked and the comment that it is given."""
    commands = tmp_path / "bin"
    commands.mkdir()
    scripts = {
        "rankmixup": f'exec "{sys.executable}" -m rankmixup "$@"',
        "python": f'exec "{sys.executable}" "$@"',
        "gh": 'echo "$@" > asked.txt; cat "$5" > comment.txt',
    }
    for name, line in scripts.items():
        (commands / name).write_text(f"#!/bin/sh\n{line}\n")
        (commands / name).chmod(0o755)
    more = {"PATH": f"{commands}{os.pathsep}{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": "summary.md", "PULL_REQUEST": "7"}

    def run(lines: str) -> int:
        done = subprocess.run(["bash", "-e", "-c", lines], cwd=tmp_path, env=os.environ | more, capture_output=True, text=True, timeout=900)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode

    return run


@pytest.mark.slow
def test_the_workflow_passes_a_good_model_and_fails_a_bad_one(steps, shell, tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)
    (script,) = [block for block in blocks(PAGE, "python") if block.startswith("# predict.py")]
    Path("predict.py").write_text(script)
    assert shell(steps["Predict"]) == 0
    for name in ("val", "test"):
        Path(f"released-{name}.npz").write_bytes(Path(f"new-{name}.npz").read_bytes())
    check, compare, show = (steps[name] for name in ("Check the model", "Compare it with the released model", "Show the tables"))
    assert [shell(lines) for lines in (check, compare, show)] == [0, 0, 0]
    assert "Failed" not in Path("comment.txt").read_text()
    assert "verdict after" in Path("summary.md").read_text()
    assert Path("asked.txt").read_text().split()[:4] == ["pr", "comment", "7", "--body-file"]
    assert execute(PAGE, tmp_path)["found"].metrics == ("ece", "nll", "accuracy")
    assert Path("comparison.html").is_file()

    with np.load("new-test.npz") as file:  # a third of the samples is guessed
        logits, labels = file["logits"].copy(), file["labels"]
    logits[::3] = np.roll(logits[::3], 1, axis=1)
    np.savez("new-test.npz", logits=logits, labels=labels)
    assert [shell(lines) for lines in (check, compare, show)] == [1, 1, 0]
    assert Path("comparison.md").read_text().startswith("**Failed: 2 conditions**\n")
    assert Path("evaluation.md").read_text().startswith("**Failed: 2 conditions**\n")
    Path("released-test.npz").write_bytes(b"not scores")
    assert shell(compare) == 2
