"""The page on adding a data set is true: its package is written to disk, found by name, trained on, and passes the contract."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.pages import blocks, run, run_pytest, write_package

pytestmark = pytest.mark.slow  # every test starts processes

PAGE = "guides/add-a-dataset.md"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    package = write_package(PAGE, tmp_path, "rankmixup_spots.py", "make_spots.py", "test_spots.py")
    run(package, "make_spots.py")
    return package


def test_the_data_set_keeps_the_contract(package: Path) -> None:
    assert re.search(r"\b1\d passed", run_pytest(package))
    listing = "from rankmixup.data import DataSource; print(DataSource.registry.summaries()['spots'])"
    assert run(package, "-c", listing).strip() == "Grey images of 8x8 pixels, with or without a bright spot"


def test_the_data_set_is_trained_on_as_a_file_and_as_a_package(package: Path) -> None:
    as_a_file, as_a_package = blocks(PAGE, "bash")
    found = json.loads(run(package, "-m", *shlex.split(as_a_package), "--json"))
    assert found["state"] == "finished"
    assert 0 <= found["metrics"]["test"]["accuracy"] <= 1
    for info in package.glob("*.dist-info"):
        shutil.rmtree(info)
    assert json.loads(run(package, "-m", *shlex.split(as_a_file), "--json"))["id"] == found["id"]
