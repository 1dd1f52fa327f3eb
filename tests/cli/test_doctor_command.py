"""`rankmixup doctor` says what there is and what is broken, and never fails itself."""

import importlib
import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest

import rankmixup
from rankmixup.cli import diagnosis
from rankmixup.cli.main import main


@pytest.fixture
def examined(tmp_path, monkeypatch, capsys):
    """A function that gives the JSON of the command, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def examine(*flags):
        assert main(["doctor", "--json", *flags]) == 0
        return json.loads(capsys.readouterr().out)

    return examine


def test_versions_and_devices_of_this_process(examined):
    import numpy
    import torch

    found = examined()
    assert (found["schema"], found["rankmixup"]["version"], found["problems"]) == (1, rankmixup.__version__, [])
    assert (found["packages"]["torch"], found["packages"]["numpy"]) == (importlib.metadata.version("torch"), numpy.__version__)
    assert found["cpu"]["threads"] == torch.get_num_threads()
    assert 0 < found["memory"]["available"] <= found["memory"]["total"]
    assert found["extras"]["timm"] == {"timm": importlib.metadata.version("timm")}
    assert not {"test", "dev", "docs"} & set(found["extras"]), "extras of developers are no part of a bug report"


def test_data_sets_that_are_there_are_found(examined, tmp_path, monkeypatch):
    monkeypatch.delenv("RANKMIXUP_DATA", raising=False)
    assert examined()["data"]["exists"] is False
    monkeypatch.setenv("RANKMIXUP_DATA", str(tmp_path / "store"))
    for folder in ("cifar-10-batches-py", "imagenet/train", "FashionMNIST/raw"):
        (tmp_path / "store" / folder).mkdir(parents=True)
    (tmp_path / "store" / "train_32x32.mat").touch()
    data = examined()["data"]
    assert data["exists"] is True
    assert set(data["found"]) == {"cifar10", "imagenet", "fashion-mnist", "svhn"}
    assert set(data["missing"]) == {"cifar100", "tiny-imagenet"}


def test_runs_are_counted(examined, tmp_path):
    assert examined()["runs"] == {"path": "runs", "exists": False, "runs": 0, "broken": 0}
    (tmp_path / "mine" / "abc").mkdir(parents=True)
    assert examined("--runs", "mine")["runs"] == {"path": "mine", "exists": True, "runs": 0, "broken": 1}


def test_home_is_not_shown(examined, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RANKMIXUP_DATA", str(tmp_path / "data"))
    found = examined("--runs", str(tmp_path / "runs"))
    assert (found["data"]["root"], found["runs"]["path"], found["environment"]["RANKMIXUP_DATA"]) == ("~/data", "~/runs", "~/data")
    assert str(tmp_path) not in json.dumps(found)


def test_a_folder_whose_name_begins_like_home_is_another_one(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    assert diagnosis.shown_path(Path("/home/anna/data")) == "/home/anna/data"
    assert diagnosis.shown_path("/home/ann/a:/home/ann/b") == "~/a:~/b"
    monkeypatch.setenv("HOME", "/")
    assert diagnosis.shown_path("/data") == "/data"


@pytest.mark.parametrize("error", [ImportError("libtorch.so: cannot open"), RuntimeError("two versions"), SystemExit(3)])
def test_a_broken_package_is_a_problem(error, examined, monkeypatch):
    imported = importlib.import_module

    def broken(name, *rest):
        if name == "torchmetrics":
            raise error
        return imported(name, *rest)

    monkeypatch.setattr(diagnosis.importlib, "import_module", broken)
    (problem,) = examined()["problems"]
    assert problem.startswith("torchmetrics: broken (")
    assert str(error) in problem


def test_a_missing_package_and_an_old_one_are_problems(examined, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: ["numpy>=99", "no-such-package>=1", "nor-this; extra == 'more'"])
    found = examined()
    assert found["packages"]["no-such-package"] is None
    assert found["extras"] == {"more": {"nor-this": None}}
    assert found["problems"] == [f"numpy: {found['packages']['numpy']} is installed, but >=99 is needed", "no-such-package: not installed"]


def test_a_library_without_metadata_is_a_problem_and_the_rest_is_shown(examined, monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", missing)
    found = examined()
    assert found["packages"] is None
    assert any("rankmixup" in problem for problem in found["problems"])
    assert found["data"] is not None


def test_a_plug_in_that_cannot_be_loaded_is_a_problem(examined, tmp_path, monkeypatch):
    (tmp_path / "bad.py").write_text("1 / 0\n")
    monkeypatch.setenv("RANKMIXUP_PLUGINS", "")
    (problem,) = examined("--plugin", str(tmp_path / "bad.py"))["problems"]
    assert "bad.py could not be loaded: ZeroDivisionError" in problem


def test_it_fits_a_screen(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith(f"rankmixup {rankmixup.__version__} (")
    assert lines[-1] == "problem   none"


@pytest.mark.slow
def test_it_runs_without_tyro_and_rich(tmp_path):
    code = "import sys\nsys.modules['tyro'] = sys.modules['rich'] = None\nfrom rankmixup.cli.main import main\nsys.exit(main(['doctor']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "problem   tyro: broken (" in done.stdout
    assert "problem   rich: broken (" in done.stdout
