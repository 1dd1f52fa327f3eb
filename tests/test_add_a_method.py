"""The page on adding a method is true: its package is written to disk, found by name, and passes the contract."""

import re
import shutil
from pathlib import Path

import pytest

from tests.pages import blocks, install, run, run_pytest, write_package

pytestmark = pytest.mark.slow  # every test starts processes


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return write_package("guides/add-a-method.md", tmp_path, "rankmixup_brier.py", "usage.py", "test_brier.py")


def test_the_method_is_found_by_its_name(package: Path) -> None:
    run(package, "usage.py")
    listing = "from rankmixup.methods import Method; print(Method.registry.summaries()['brier'])"
    assert run(package, "-c", listing).strip() == "Squared distance between probabilities and the one-hot label"


@pytest.mark.parametrize("editable", [False, True])
def test_the_package_installs_as_written(package: Path, editable: bool) -> None:
    target = install(package, *["-e"] * editable)
    shutil.copy(package / "usage.py", target)
    assert (target / "rankmixup_brier.py").exists() is not editable
    run(target, "-c", "import runpy, site; site.addsitedir('.'); runpy.run_path('usage.py')")


def test_the_method_needs_no_package(tmp_path: Path) -> None:
    (tmp_path / "rankmixup_brier.py").write_text(blocks("guides/add-a-method.md", "python")[0], encoding="utf-8")
    (commands,) = blocks("guides/add-a-method.md", "sh")
    listing, training, sweep = commands.splitlines()
    assert "│ brier " in run(tmp_path, "-m", *listing.split())
    assert '"weight": 2.0' in run(tmp_path, "-m", *training.split(), "--show", "--json")
    setting, *sweep = sweep.split()
    code = f"import os, sys; name, _, value = {setting!r}.partition('='); os.environ[name] = value; from rankmixup.cli.main import main; "
    assert run(tmp_path, "-c", f"{code} sys.exit(main({[*sweep[1:], '--dry-run']}))").startswith("6 runs, ")


def test_the_method_keeps_the_contract(package: Path) -> None:
    out = run_pytest(package, "-m", "not dist")
    assert re.search(r"\b[12]\d passed, 1 deselected", out), out


@pytest.mark.dist
def test_the_method_keeps_the_contract_in_two_processes(package: Path) -> None:
    out = run_pytest(package, "-m", "dist")
    assert "1 passed" in out, out
