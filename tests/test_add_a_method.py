"""The page on adding a method is true: its package is written to disk, found by name, and passes the contract."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "add-a-method.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The page's package as an installer would leave it: modules beside the metadata that names its entry points."""
    module, usage, test = blocks("python")
    (pyproject,) = blocks("toml")
    (tmp_path / "rankmixup_brier.py").write_text(module, encoding="utf-8")
    (tmp_path / "usage.py").write_text(usage, encoding="utf-8")
    (tmp_path / "test_brier.py").write_text(test, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(pyproject, encoding="utf-8")
    project = tomllib.loads(pyproject)["project"]
    info = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n", encoding="utf-8")
    groups = project["entry-points"].items()
    lines = [f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items()) for group, points in groups]
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def run(package: Path, *command: str) -> str:
    """In a process of its own, so that the method joins nobody else's registry."""
    path = os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, *command], cwd=package, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_method_is_found_by_its_name(package: Path) -> None:
    run(package, "usage.py")
    listing = "from rankmixup.methods import Method; print(Method.registry.summaries()['brier'])"
    assert run(package, "-c", listing).strip() == "Squared distance between probabilities and the one-hot label"


def test_the_method_keeps_the_contract(package: Path) -> None:
    out = run(
        package, "-m", "pytest", "-q", "-W", "error", "--strict-markers", "--doctest-modules", "-m", "not dist", "-p", "no:cacheprovider"
    )
    assert re.search(r"\b[12]\d passed, 1 deselected", out), out


@pytest.mark.dist
def test_the_method_keeps_the_contract_in_two_processes(package: Path) -> None:
    out = run(package, "-m", "pytest", "-q", "-W", "error", "--strict-markers", "-m", "dist", "-p", "no:cacheprovider")
    assert "1 passed" in out, out
