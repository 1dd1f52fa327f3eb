"""Pages of docs as programs: their code blocks are executed, or become a package that is installed and run."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$\n?", flags=re.MULTILINE | re.DOTALL)
"""A code block of a page: its language and its text."""


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of `docs/PAGE` that are marked with `language`."""
    return [text for marked, text in BLOCK.findall((DOCS / page).read_text(encoding="utf-8")) if marked == language]


def commands(page: str) -> list[list[str]]:
    """The words after `rankmixup` in every such line of the shell blocks of a page, without comments."""
    lines = "".join(blocks(page, "bash")).replace("\\\n", " ").splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    return [each[1:] for each in words if each[:1] == ["rankmixup"]]


def execute_block(block: str, names: dict[str, object], folder: Path, page: str) -> None:
    """Executes a Python block of a page with the names of the blocks before it; one that begins with `# NAME.py` is a file."""
    file = re.match(r"# (\w+\.py)\b", block)
    if file:
        (folder / file[1]).write_text(block, encoding="utf-8")
    else:
        exec(compile(block, page, "exec"), names)


def execute(page: str, folder: Path) -> dict[str, object]:
    """The names that the Python blocks of a page leave when they are executed in order."""
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page, "python"):
        execute_block(block, names, folder, page)
    return names


def write_package(page: str, folder: Path, *names: str) -> Path:
    """The package of a page as an installer would leave it: its Python blocks in files `names`, and metadata with its entry points."""
    (pyproject,) = blocks(page, "toml")
    for name, text in zip((*names, "pyproject.toml"), (*blocks(page, "python"), pyproject), strict=True):
        (folder / name).write_text(text, encoding="utf-8")
    project = tomllib.loads(pyproject)["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n", encoding="utf-8")
    groups = project["entry-points"].items()
    lines = [f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items()) for group, points in groups]
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    return folder


def install(package: Path, *options: str) -> Path:
    """The folder into which pip has installed a package from its own pyproject.toml, without a network."""
    target = package / f"site{len(options)}"
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    run(package, "-m", "pip", "install", "-q", *offline, "--target", str(target), *options, ".")
    return target


def run(package: Path, *command: str) -> str:
    """What Python prints, in a process of its own, so that the package joins nobody else's registry."""
    path = os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, *command], cwd=package, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_pytest(package: Path, *options: str) -> str:
    """What pytest prints about the tests and doctests of a package, which must pass without a warning."""
    return run(package, "-m", "pytest", "-q", "-W", "error", "--strict-markers", "--doctest-modules", "-p", "no:cacheprovider", *options)
