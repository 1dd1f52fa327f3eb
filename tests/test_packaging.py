"""What is published agrees with itself: version, metadata, sdist, wheel and the workflow that checks them."""

import email
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest
import yaml

import rankmixup

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NEEDS_GIT = pytest.mark.skipif(not (ROOT / ".gitignore").exists(), reason="the checkout is needed, not an sdist")


def test_changelog_and_citation_name_the_version_and_its_date():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first, *released = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert first == "Unreleased", "CHANGELOG.md begins with '## Unreleased', where new lines go"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", version) for version in released), "write '## VERSION - YEAR-MONTH-DAY'"
    version, _, date = released[0].partition(" - ")
    assert version == rankmixup.__version__, "__version__ in src/rankmixup/__init__.py and the newest version in CHANGELOG.md must be equal"
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    found = (citation["version"], str(citation["date-released"]))
    assert found == (version, date), "CITATION.cff must have the newest version of CHANGELOG.md and its date"


def test_the_changelog_has_the_headings_of_keep_a_changelog_in_one_order():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    order = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        headings = re.findall(r"^### (.*)$", section, flags=re.MULTILINE)
        expected = [name for name in order if name in headings]
        assert headings == expected, f"in {section.splitlines()[0]}, headings are some of {order}, in this order, each once"


def test_the_address_of_the_repository_is_the_same_everywhere():
    home = PROJECT["urls"]["Homepage"]
    assert all(url.startswith(home) for url in PROJECT["urls"].values()), "project.urls in pyproject.toml must begin with Homepage"
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["repository-code"] == home


def test_pages_install_from_an_index_only_what_is_on_one():
    """The package is on none: it comes from a copy, from its repository, or, with an extra, is installed already."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]
    lines = [(page, line) for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    shown = [line for _, line in lines if re.search(r"pip3? (?:install|download|wheel)(?: [^\s`']+)* rankmixup(?![\w\[.-])", line)]
    assert shown == ["pip install --no-index --find-links packages rankmixup"]
    assert any("pip install ." in line for page, line in lines if page.name == "README.md")


def test_every_direct_requirement_has_its_tested_version():
    """Whoever adds a package to pyproject.toml adds its version to constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert pins == sorted(pins), "constraints.txt must be sorted"
    names = [pin.partition("==")[0] for pin in pins]
    asked = [*PROJECT["dependencies"], *(line for extra in PROJECT["optional-dependencies"].values() for line in extra)]
    required = {re.split(r"[><=\[]", line)[0] for line in asked} - {"rankmixup"}
    assert required == set(names), "constraints.txt has the tested version of each package in pyproject.toml, and of no other"


WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"


@NEEDS_GIT
def test_the_workflow_runs_what_developers_run_on_every_supported_version():
    jobs = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    used = set()
    for name, job in jobs.items():
        commands = [shlex.split(line) for step in job["steps"] for line in step.get("run", "").splitlines()]
        assert commands, f"the job {name} runs nothing"
        for program, *arguments in commands:
            if program == "make":
                assert set(arguments) <= targets, f"the job {name} makes {arguments}, the Makefile has {sorted(targets)}"
                used |= set(arguments)
            else:
                known = program == "python" or program.endswith(("fresh/bin/python", "fresh/bin/rankmixup"))
                assert known, f"the job {name} runs {program}: add a target to the Makefile, so that developers can run it too"
    assert used == {"check", "test", "test-all", "docs", "dist"}
    supported = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert jobs["test"]["strategy"]["matrix"]["python"] == supported, "the workflow tests the versions that the classifiers name"
    assert PROJECT["requires-python"] == f">={supported[0]}"


@NEEDS_GIT
def test_a_bug_report_asks_for_the_doctor():
    for name in ("bug", "feature"):
        form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml").read_text(encoding="utf-8"))
        assert {"name", "description", "body"} <= set(form)
        assert any("rankmixup doctor" in part["attributes"]["label"] for part in form["body"])


def built(source: Path, target: Path, *kinds: str) -> list[Path]:
    """Distributions of a source tree, made without a network."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), *(f"--{kind}" for kind in kinds), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(target.iterdir())


@pytest.fixture(scope="module")
def distributions(tmp_path_factory) -> tuple[Path, Path]:
    """The sdist, and the wheel that is made from it."""
    pytest.importorskip("build")
    wheel, sdist = built(ROOT, tmp_path_factory.mktemp("dist"))
    assert (wheel.suffix, sdist.suffix) == (".whl", ".gz")
    return sdist, wheel


def contents(wheel: Path) -> dict[str, bytes]:
    """Bytes by name; the list of files has no order that matters."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: b"".join(sorted(archive.read(name).splitlines())) for name in archive.namelist()}


@pytest.mark.slow
def test_the_wheel_holds_the_library_and_its_data_files_and_nothing_else(distributions):
    _, wheel = distributions
    tracked = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "rankmixup").rglob("*") if path.is_file()}
    expected = {name for name in tracked if "__pycache__" not in name}
    info = f"rankmixup-{rankmixup.__version__}.dist-info"
    found = set(contents(wheel))
    assert found == expected | {f"{info}/{name}" for name in ("METADATA", "WHEEL", "entry_points.txt", "licenses/LICENSE", "RECORD")}
    assert {"rankmixup/py.typed", "rankmixup/runs/recipes.toml", "rankmixup/paper/published/table1.csv"} <= found
    assert any(name.endswith(".j2") for name in found)


@pytest.mark.slow
def test_the_sdist_makes_the_same_wheel_as_the_checkout(distributions, tmp_path):
    sdist, wheel = distributions
    (again,) = built(ROOT, tmp_path / "dist", "wheel")
    assert contents(again) == contents(wheel)
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "tests/conftest.py",
        "studies/results.py",
        "results/cpu/tournament.json",
        "docs/index.md",
        "LICENSE",
        "CHANGELOG.md",
        "CITATION.cff",
        "Makefile",
        "constraints.txt",
    } <= names
    assert not [name for name in names if re.match(r"\.venv|runs/|.*__pycache__", name)]


@pytest.mark.slow
def test_the_metadata_is_complete(distributions):
    _, wheel = distributions
    with zipfile.ZipFile(wheel) as archive:
        metadata = email.message_from_bytes(archive.read(f"rankmixup-{rankmixup.__version__}.dist-info/METADATA"))
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == PROJECT["requires-python"]
    assert metadata.get_all("Classifier") == PROJECT["classifiers"]
    assert not any(line.startswith("License ::") for line in metadata.get_all("Classifier")), "the licence is an SPDX expression"
    assert [line.partition(",")[0] for line in metadata.get_all("Project-URL")] == list(PROJECT["urls"])
    assert set(metadata.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])
    assert metadata.get_payload().startswith("# rankmixup")


@pytest.mark.slow
def test_the_installed_wheel_works_in_an_empty_folder(distributions, tmp_path):
    _, wheel = distributions
    target, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    options = ["--no-index", "--no-deps", "--disable-pip-version-check", "--quiet", "--target", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(wheel)], check=True)
    environment = {**os.environ, "PYTHONPATH": str(target)}

    def run(*command: str) -> str:
        done = subprocess.run([sys.executable, "-W", "error", *command], cwd=empty, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("-c", "import rankmixup; print(rankmixup.__file__)").strip().startswith(str(target))
    assert run(str(target / "bin" / "rankmixup"), "--version").strip() == rankmixup.__version__
    assert "rankmixup-mndcg" in run("-m", "rankmixup", "list", "methods")
    assert "problem   none" in run("-m", "rankmixup", "doctor")
    np.savez(empty / "scores.npz", logits=np.eye(3), labels=np.arange(3))
    page = run("-m", "rankmixup", "evaluate", "scores.npz", "--replicates", "10", "--html", "page.html")
    assert "accuracy" in page.lower()
    assert (empty / "page.html").stat().st_size > 10_000
