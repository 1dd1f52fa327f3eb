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
from rankmixup.cli.main import main
from rankmixup.cli.parsing import parse
from rankmixup.cli.train_command import Options, requested_run
from rankmixup.runs import Optimisation
from tests.pages import blocks, commands, execute

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("document", ["reference/paper.md", "explanations/deviations.md"])
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
            assert re.search(rf"def {name.rstrip('*')}{ending}", source), (
                f"docs/{document} names the test {last}::{name}, which does not exist"
            )
    assert found > 10


WRITTEN = [page for page in sorted((ROOT / "docs").glob("**/*.md")) if not page.read_text().startswith("<!-- Generated")]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *WRITTEN]


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
        assert found is not None, f"{page.name} names {name}, which does not exist"


def test_the_files_that_contributing_names_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    files = {name for name in re.findall(r"`([\w/]+(?:\.py|\.toml|/))`", text) if not re.search("NAME|KEY", name)}
    assert len(files) > 15
    for name in files:
        assert (ROOT / name).exists() or (ROOT / "src" / "rankmixup" / name).exists(), f"CONTRIBUTING.md names {name}, which does not exist"
    layers = re.findall(r"^\| (`.*?) \|", text.partition("## Layers")[2].partition("## ")[0], flags=re.MULTILINE)
    named = {name for line in layers for name in re.findall(r"`(\w+)`", line)} | {"functional"}
    modules = {module.name for module in pkgutil.iter_modules(rankmixup.__path__)} - {"__main__"}
    assert named == modules, "the table of layers in CONTRIBUTING.md has every module and package of rankmixup, and no other"


def test_every_method_mixer_and_function_has_its_row_in_the_paper_document():
    from rankmixup.methods import Method
    from rankmixup.mixers import Mixer

    text = (ROOT / "docs" / "reference" / "paper.md").read_text()
    for registry in (Method.registry, Mixer.registry):
        for key in registry:
            row = f"docs/reference/paper.md must have a row with `{key}` and `{registry[key].__name__}`"
            assert f"`{key}`" in text, row
            assert f"`{registry[key].__name__}`" in text, row


EXECUTED = {
    "explanations/calibration.md": None,
    "explanations/resume.md": None,
    "guides/your-loop.md": None,
    "guides/binary.md": None,
    "guides/choose-a-method.md": None,
    "guides/dials.md": None,
    "guides/groups.md": None,
    "guides/long-tails.md": None,
    "guides/ood.md": None,
    "guides/shift.md": None,
    "guides/timm.md": "timm",
    "guides/lightning.md": "lightning",
    "guides/scaling.md": "lightning",
}
"""Pages whose Python blocks run in order and assert what they say, with the package that they need."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of other packages: workers, loggers, compilers
@pytest.mark.parametrize(("page", "package"), EXECUTED.items())
def test_the_examples_of_a_page_run(page, package, tmp_path, monkeypatch):
    if package:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    with torch.random.fork_rng():
        assert execute(page, tmp_path)


COMMANDS = [
    "guides/binary.md",
    "guides/choose-a-method.md",
    "guides/dials.md",
    "guides/groups.md",
    "guides/long-tails.md",
    "guides/ood.md",
    "guides/scaling.md",
    "guides/shift.md",
    "guides/watching.md",
]
"""Pages whose commands are all parsed, and that need no data for it."""


@pytest.mark.parametrize("page", COMMANDS)
def test_the_commands_of_a_page_are_understood(page):
    found = commands(page)
    assert found
    for name, *rest in found:
        if name == "train":
            assert requested_run([word.replace("folder:photos", "digits") for word in rest])
            continue
        if name in ("sweep", "reproduce"):
            assert main([name, *rest, "--dry-run"]) == 0
            continue
        options = importlib.import_module(f"rankmixup.cli.{name}_command").run.__annotations__["options"]
        assert isinstance(parse(options, rest, prog=name), options)


@pytest.mark.dist
def test_the_script_of_your_loop_trains_in_two_processes(tmp_path):
    (script,) = [block for block in blocks("guides/your-loop.md", "python") if block.startswith("# ddp.py")]
    (tmp_path / "ddp.py").write_text(script)
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run([sys.executable, "-m", *launcher, "ddp.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the same weights") == 2
    streams = [torch.load(tmp_path / f"objective-{rank}.pt", weights_only=True)["_extra_state"] for rank in range(2)]
    assert not torch.equal(*streams)


def test_the_example_of_watching_gives_what_it_says():
    text = (ROOT / "docs" / "guides" / "watching.md").read_text()
    example, _ = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    *_, raw, mixed, _ = example.strip().splitlines()
    names: dict[str, object] = {}
    exec(example, names)
    for line in (raw, mixed):
        code, _, said = line.partition("#")
        assert float(eval(code, names)) == float(said.split(":")[0])


@pytest.mark.filterwarnings("ignore:margin of rankmixup-auto:UserWarning")  # of an example that is short
def test_the_example_of_the_method_trains_and_tunes():
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "explanations" / "method.md").read_text(), flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(example, names)
    assert names["step"].steps == 3
    assert list(names["step"].dials) == ["margin"]


def test_the_example_of_own_data_trains(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "guides" / "own-data.md").read_text(), flags=re.DOTALL)
    names: dict[str, object] = {}
    with torch.random.fork_rng():
        exec(example, names)
    assert names["stored"].result().metrics["test"]["accuracy"] > 0.7
    weights = [module[0].weight for module in (names["network"], names["trained"])]
    assert not torch.equal(*weights)


@pytest.mark.filterwarnings("ignore:margin of rankmixup-auto:UserWarning")  # of an example that is short
def test_the_example_of_fine_tuning_trains_from_a_run_and_its_commands_are_understood(tmp_path, monkeypatch):
    text = (ROOT / "docs" / "guides" / "finetune.md").read_text()
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
