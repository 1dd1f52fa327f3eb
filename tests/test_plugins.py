"""Files given with --plugin or RANKMIXUP_PLUGINS: what they register is there, in every process, and what is wrong with them is said."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rankmixup.methods import Method

PLUGIN = '''
from dataclasses import dataclass

from torch import nn

from rankmixup.data import Digits
from rankmixup.data import register as register_data
from rankmixup.methods import CrossEntropy
from rankmixup.methods import register as register_method
from rankmixup.mixers import Mixup
from rankmixup.mixers import register as register_mixer
from rankmixup.models import register as register_model


@register_method("plugged-method", "plugged-alias")
@dataclass(frozen=True)
class Plugged(CrossEntropy):
    """A method from a file."""

    factor: float = 1.0

    def loss(self, logits, target):
        return self.factor * super().loss(logits, target)


@register_mixer("plugged-mixer")
@dataclass(frozen=True)
class PluggedMixer(Mixup):
    """A mixer from a file."""


@register_model("plugged-model")
def build(*, num_classes, image_size, in_channels):
    """A network from a file."""
    return nn.Sequential(nn.Flatten(), nn.Linear(in_channels * image_size**2, num_classes))


@register_data("plugged-data")
@dataclass(frozen=True)
class PluggedData(Digits):
    """A data set from a file."""
'''
SHORT = ["--epochs", "1", "--accelerator", "cpu", "--json"]


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    (tmp_path / "plugged file.py").write_text(PLUGIN)
    return tmp_path / "plugged file.py"


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, so that a plug-in joins nobody else's registry."""
    return subprocess.run(
        [sys.executable, "-m", "rankmixup", *arguments],
        cwd=folder,
        env={"PYTHONWARNINGS": "ignore", **os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def output(folder: Path, *arguments: str, **environment: str) -> str:
    done = run(folder, *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "before", "after", "environment"),
    [
        ("method", ["--plugin", "plugged file.py"], [], {}),
        ("mixer", [], ["--plugin=plugged file.py"], {}),
        ("model", ["--plugin", "other.py"], ["--plugin", "plugged file.py"], {}),
        ("data", [], [], {"RANKMIXUP_PLUGINS": "other.py, plugged file.py"}),
        ("method", [], ["--plugin", "plugged file.py"], {"RANKMIXUP_PLUGINS": os.pathsep.join(["other.py", "./plugged file.py", ""])}),
    ],
)
def test_what_a_file_registers_is_there(plugin, kind, before, after, environment):
    (plugin.parent / "other.py").write_text("")
    listed = json.loads(
        output(plugin.parent, *before, "list", f"{kind.rstrip('s') if kind == 'data' else kind + 's'}", "--json", *after, **environment)
    )
    assert f"plugged-{kind}" in [entry["name"] for entry in next(iter(listed.values()))]


def test_without_the_file_nothing_is_there(plugin):
    done = run(plugin.parent, "train", "plugged-method", "--show")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown method 'plugged-method'" in done.stderr
    assert "plugged-method" not in Method.registry


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "a plug-in must be a Python file NAME.py, got "),
        ("raise RuntimeError('broken\\nin two lines')", r"bad.py could not be loaded: RuntimeError: broken\nin two lines"),
        ("def", "bad.py could not be loaded: SyntaxError: "),
        ("import nothing_of_this_name", "bad.py could not be loaded: ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("import sys; sys.exit()", "bad.py could not be loaded: SystemExit: "),
        (PLUGIN.replace("plugged-method", "ce"), "bad.py could not be loaded: method 'ce' is already registered; choose another name"),
        (PLUGIN.replace("plugged-alias", "mrl"), "bad.py could not be loaded: method 'mrl' is already registered; choose another name"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_refused_in_a_sentence(tmp_path, text, said):
    if text is not None:
        (tmp_path / "bad.py").write_text(text)
    done = run(tmp_path, "runs", "--plugin", "bad.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_file_that_cannot_be_loaded_stops_no_other_and_is_tried_again(plugin):
    """In a process that goes on, as a notebook does, after its user has repaired the file."""
    (plugin.parent / "bad.py").write_text(PLUGIN.replace("plugged", "repaired") + "\nraise RuntimeError('not yet')")
    (plugin.parent / "dist-1.dist-info").mkdir()
    (plugin.parent / "dist-1.dist-info" / "METADATA").write_text("Name: dist\nVersion: 1")
    (plugin.parent / "dist-1.dist-info" / "entry_points.txt").write_text("[rankmixup.methods]\npoint = point")
    (plugin.parent / "point.py").write_text(PLUGIN.replace("plugged", "pointed"))
    code = """
from pathlib import Path
from rankmixup.errors import InvalidInput
from rankmixup.methods import Method
for _ in range(2):
    try:
        "nothing" in Method.registry
    except InvalidInput as error:
        print(error)
print("plugged-method" in Method.registry._entries)
text = Path("bad.py").read_text()
Path("bad.py").write_text(text.partition("\\nraise")[0])
print([name + "-method" in Method.registry for name in ("plugged", "repaired", "pointed")])
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=plugin.parent,
        env={**os.environ, "RANKMIXUP_PLUGINS": "bad.py,plugged file.py", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    first, second, *rest = done.stdout.splitlines()
    assert first == second == f"plug-in {(plugin.parent / 'bad.py').resolve()} could not be loaded: RuntimeError: not yet"
    assert rest == ["True", "[True, True, True]"]


def test_flags_without_a_file_or_with_two_in_one_are_refused(tmp_path):
    for arguments in (["runs", "--plugin"], ["--plugin=", "runs"], ["runs", "--plugin", "a.py,b.py"]):
        done = run(tmp_path, *arguments)
        assert done.returncode == 2
        assert done.stderr.startswith("error: --plugin must be ")


def test_help_runs_no_plugin(tmp_path):
    (tmp_path / "bad.py").write_text("raise RuntimeError")
    assert "--plugin FILE" in output(tmp_path, "--plugin", "bad.py", "--help")
    assert "usage" in output(tmp_path, "runs", "--help", RANKMIXUP_PLUGINS="bad.py")


@pytest.mark.slow
def test_a_run_with_a_plugin_is_read_with_it_and_refused_without(plugin):
    shown = json.loads(output(plugin.parent, "--plugin", plugin.name, "train", "plugged-alias", "--factor", "2", "--show", "--json"))
    assert shown["run"]["method"] == {"name": "plugged-method", "factor": 2.0}


@pytest.mark.dist
def test_a_method_of_a_file_is_trained_by_two_processes(plugin):
    options = ["plugged-method", "--model", "plugged-model", "--devices", "2", *SHORT]
    result = json.loads(output(plugin.parent, "train", *options, "--plugin", "plugged file.py"))
    assert result["state"] == "finished"


@pytest.mark.slow
@pytest.mark.parametrize("where", [["--workers", "2"], ["--on", "ray"]], ids=["workers", "ray"])
def test_a_method_of_a_file_is_trained_by_worker_processes(plugin, where):
    if "ray" in where:
        pytest.importorskip("ray", exc_type=ImportError)
    swept = json.loads(
        output(plugin.parent, "sweep", "plugged-method", "--factor", "1", "2", "--seeds", "1", *SHORT, *where, "--plugin", plugin.name)
    )
    assert swept["method"] == "plugged-method"
    assert len(swept["ranked"]) == 2
