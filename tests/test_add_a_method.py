"""The page on adding a method is true: its package is written to disk, found by name, and passes the contract."""

import re
from pathlib import Path

import pytest

from tests.pages import run, run_pytest, write_package


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return write_package("add-a-method.md", tmp_path, "rankmixup_brier.py", "usage.py", "test_brier.py")


def test_the_method_is_found_by_its_name(package: Path) -> None:
    run(package, "usage.py")
    listing = "from rankmixup.methods import Method; print(Method.registry.summaries()['brier'])"
    assert run(package, "-c", listing).strip() == "Squared distance between probabilities and the one-hot label"


def test_the_method_keeps_the_contract(package: Path) -> None:
    out = run_pytest(package, "-m", "not dist")
    assert re.search(r"\b[12]\d passed, 1 deselected", out), out


@pytest.mark.dist
def test_the_method_keeps_the_contract_in_two_processes(package: Path) -> None:
    out = run_pytest(package, "-m", "dist")
    assert "1 passed" in out, out
