"""Documents name tests and functions that exist."""

import importlib
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import rankmixup
from rankmixup.cli.train_command import Options, requested_run
from rankmixup.runs import Optimisation
from tests.pages import blocks, execute

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("document", ["paper.md", "deviations.md"])
def test_every_test_named_in_a_document_exists(document):
    text = (ROOT / "docs" / document).read_text()
    last, found = "", 0
    for path, name in re.findall(r"`([\w/]*?(?:test_\w+\.py)?)(?:::(test_\w+\*?))?`", text):
        if not path.endswith(".py") and not name:
            continue
        last, found = path or last, found + 1
        source = (ROOT / "tests" / last).read_text()
        if name:
            ending = "" if name.endswith("*") else r"\b"
            assert re.search(rf"def {name.rstrip('*')}{ending}", source), f"{last}::{name}"
    assert found > 10


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_dotted_name_in_a_document_exists(page):
    """Names like `rankmixup.metrics.kendall_tau`, `functional.mixup` and `rm.train`; groups of entry points have the names of modules."""
    packages = "|".join(module.name for module in pkgutil.iter_modules(rankmixup.__path__))
    for name in re.findall(rf"`@?((?:rm|rankmixup|{packages})(?:\.\w+)+)(?=[`(])", page.read_text()):
        first, *rest = name.split(".")
        path = rest if first in ("rm", "rankmixup") else [first, *rest]
        if path in (["methods"], ["calibrators"], ["metrics"]) or path[-1] in ("py", "toml", "md", "csv"):
            continue
        found = rankmixup
        for part in path:
            dotted = f"{getattr(found, '__name__', '')}.{part}"
            found = getattr(found, part, None) or importlib.import_module(dotted)
        assert found is not None, name


def test_the_files_that_contributing_names_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    files = {name for name in re.findall(r"`([\w/]+(?:\.py|\.toml|/))`", text) if not re.search("NAME|KEY", name)}
    assert len(files) > 15
    for name in files:
        assert (ROOT / name).exists() or (ROOT / "src" / "rankmixup" / name).exists(), name
    layers = re.findall(r"^\| (`.*?) \|", text.partition("## Layers")[2].partition("## ")[0], flags=re.MULTILINE)
    named = {name for line in layers for name in re.findall(r"`(\w+)`", line)} | {"functional"}
    assert named == {module.name for module in pkgutil.iter_modules(rankmixup.__path__)} - {"__main__"}


def test_every_method_mixer_and_function_has_its_row_in_the_paper_document():
    from rankmixup.methods import Method
    from rankmixup.mixers import Mixer

    text = (ROOT / "docs" / "paper.md").read_text()
    for registry in (Method.registry, Mixer.registry):
        for key in registry:
            assert f"`{key}`" in text, key
            assert f"`{registry[key].__name__}`" in text, key


EXECUTED = {"your-loop.md": None, "timm.md": "timm", "lightning.md": "lightning"}
"""Pages whose Python blocks run in order and assert what they say, with the package that they need."""


@pytest.mark.filterwarnings("ignore")  # of other packages: workers, loggers, compilers
@pytest.mark.parametrize(("page", "package"), EXECUTED.items())
def test_the_examples_of_a_page_run(page, package, tmp_path, monkeypatch):
    if package:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    with torch.random.fork_rng():
        assert execute(page, tmp_path)


@pytest.mark.dist
def test_the_script_of_your_loop_trains_in_two_processes(tmp_path):
    (script,) = [block for block in blocks("your-loop.md", "python") if block.startswith("# ddp.py")]
    (tmp_path / "ddp.py").write_text(script)
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run([sys.executable, "-m", *launcher, "ddp.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the same weights") == 2
    streams = [torch.load(tmp_path / f"objective-{rank}.pt", weights_only=True)["_extra_state"] for rank in range(2)]
    assert not torch.equal(*streams)


def test_the_example_of_watching_gives_what_it_says():
    text = (ROOT / "docs" / "watching.md").read_text()
    example, _ = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    *_, raw, mixed, _ = example.strip().splitlines()
    names: dict[str, object] = {}
    exec(example, names)
    for line in (raw, mixed):
        code, _, said = line.partition("#")
        assert float(eval(code, names)) == float(said.split(":")[0])


def test_the_example_of_the_method_trains_and_tunes():
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "method.md").read_text(), flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(example, names)
    assert names["step"].steps == 3
    assert list(names["step"].dials) == ["margin"]


def test_the_example_of_own_data_trains(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "own-data.md").read_text(), flags=re.DOTALL)
    names: dict[str, object] = {}
    with torch.random.fork_rng():
        exec(example, names)
    assert names["stored"].result().metrics["test"]["accuracy"] > 0.7
    weights = [module[0].weight for module in (names["network"], names["trained"])]
    assert not torch.equal(*weights)


def test_the_example_of_fine_tuning_trains_from_a_run_and_its_commands_are_understood(tmp_path, monkeypatch):
    text = (ROOT / "docs" / "finetune.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    monkeypatch.setattr("tempfile.mkdtemp", lambda: str(tmp_path))
    names: dict[str, object] = {}
    exec(example, names)
    start, tuned = names["start"], names["tuned"]
    assert (tuned.run.weights.tag, tuned.run.freeze) == (start.run.id, True)
    commands, _ = re.findall(r"```bash\n(.*?)```", text, flags=re.DOTALL)
    flags = re.findall(r"--[a-z][a-z-]+", text)
    monkeypatch.setattr("rankmixup.runs.Run", lambda method, data, **given: SimpleNamespace(data=data, **given))
    for line in commands.strip().splitlines():
        asked, options = requested_run(shlex.split(line.replace("folder:photos", "digits"))[2:])
        assert asked.optimisation.layer_decay == 0.75
        assert asked.pretrained or asked.weights or asked.init_from
        assert options.recipe == "finetune"
    fields = {f"--{name.replace('_', '-')}" for part in (Options, Optimisation) for name in part.__dataclass_fields__}
    assert set(flags) <= fields | {"--data", "--resume"}


def test_the_reference_has_every_public_name():
    """A module directive documents classes and functions; imported constants need a directive of their own."""
    text = (ROOT / "docs" / "reference.md").read_text()
    for name in rankmixup.__all__:
        assert re.search(rf"`rm\.{name}`|autofunction:: rankmixup\.{name}\n", text) or name == "__version__", name
    modules = [module for module in pkgutil.walk_packages(rankmixup.__path__, "rankmixup.") if module.name.count(".") == 1 or module.ispkg]
    for info in modules:
        if info.name in ("rankmixup.__main__", "rankmixup.functional"):
            continue
        module = importlib.import_module(info.name)
        names = getattr(module, "__all__", [])
        assert not names or f".. automodule:: {info.name}\n" in text, info.name
        imported = [
            name
            for name in names
            if info.ispkg and not callable(getattr(module, name)) and f"\n{name} = " not in Path(module.__file__).read_text()
        ]
        assert all(f".. data:: {name}\n   :module: {info.name}\n" in text for name in imported), (info.name, imported)
