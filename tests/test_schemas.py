"""The JSON of every command and of run directories is what its schema in docs/schemas says, and so are the examples of the page."""

import copy
import json
import re
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import rankmixup as rm
from rankmixup.cli.main import main
from rankmixup.experiments.tournament import COLUMNS, cells_of, tournament

ROOT = Path(__file__).parent.parent
SCHEMAS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "docs" / "schemas").glob("*.json"))}
PAGE = (ROOT / "docs" / "reference" / "file-formats.md").read_text(encoding="utf-8")
TITLES = {"run.json": "run", "splits.json": "splits", "env.json": "env", "log.jsonl": "log", "result.json": "result"}


def validate(name: str, data: object) -> None:
    jsonschema.validate(data, SCHEMAS[name], jsonschema.Draft202012Validator)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two files of scores, and one of out-of-distribution scores."""
    folder, draw = tmp_path_factory.mktemp("schemas"), np.random.default_rng(0)
    for name in ("a", "b"):
        np.savez(folder / f"{name}.npz", logits=draw.normal(size=(60, 6)), labels=np.arange(60) % 6)
    np.savez(folder / "noise.npz", logits=np.zeros((20, 6)))
    return folder


@pytest.fixture(scope="module")
def run(folder) -> Path:
    flags = ["--model", "mlp", "--epochs", "1", "--data.train-size", "50", "--runs", str(folder / "runs"), "--json"]
    assert main(["train", "rankmixup-auto", *flags]) == 0
    (path,) = (folder / "runs").iterdir()
    return path


def printed(capsys, *arguments: object) -> dict:
    capsys.readouterr()
    assert main([*map(str, arguments), "--json"]) in (0, 1)
    return json.loads(capsys.readouterr().out)


FEW = ["--replicates", "10"]


def test_evaluate_and_ood(folder, capsys):
    a, b, noise = (folder / f"{name}.npz" for name in ("a", "b", "noise"))
    validate("evaluate", printed(capsys, "evaluate", a, *FEW))
    more = ["--calibrate-on", b, "--ood", noise, "--fail-if", "accuracy<0.99"]
    found = printed(capsys, "evaluate", a, *more, *FEW)
    assert found["failed"]
    validate("evaluate", found)
    validate("ood", printed(capsys, "ood", a, "--ood", noise, *FEW))


def test_evaluate_with_groups_and_with_two_classes(folder, tmp_path, capsys):
    a, b = (folder / f"{name}.npz" for name in ("a", "b"))
    (tmp_path / "site.txt").write_text("north\nsouth\n" * 29 + "east\n\n")
    found = printed(capsys, "evaluate", a, "--calibrate-on", b, "--group", tmp_path / "site.txt", *FEW)
    assert found["groups"]["site"]["after"]["gaps"]["ece"]
    assert found["groups"]["site"]["before"]["groups"]["(missing)"]["too_small"]
    validate("evaluate", found)
    np.savez(tmp_path / "two.npz", logits=np.linspace(-2, 2, 30), labels=np.arange(30) % 2)
    found = printed(capsys, "evaluate", tmp_path / "two.npz", "--calibrate-on", tmp_path / "two.npz", "--calibrate-with", "platt", *FEW)
    assert found["positive"]["index"] == found["calibration"]["positive"]["index"] == 1
    validate("evaluate", found)


@pytest.mark.parametrize("scores", [[[3.0], [1.0]], [[3.0, 1.0], [3.0, 1.0]]], ids=["one class", "all right"])
def test_scores_whose_metrics_are_not_all_defined(scores, tmp_path, capsys):
    np.savez(tmp_path / "odd.npz", logits=np.array(scores), labels=np.array([0, 0]))
    validate("evaluate", printed(capsys, "evaluate", tmp_path / "odd.npz", *FEW))


def test_compare(folder, capsys):
    a, b = folder / "a.npz", folder / "b.npz"
    validate("compare", printed(capsys, "compare", a, b, *FEW))
    found = printed(capsys, "compare", a, b, "--calibrate-on", b, a, "--fail-if", "a.accuracy<0.99", *FEW)
    assert found["failed"]
    assert found["calibration"]
    validate("compare", found)


def test_shift(run, folder, capsys):
    other = ["--model", "mlp", "--epochs", "1", "--data.train-size", "50", "--runs", str(folder / "others"), "--json"]
    assert main(["train", "ce", *other]) == 0
    runs = [run, *(folder / "others").iterdir()]
    found = printed(capsys, "shift", *runs, "--corruptions", "contrast", "--severities", "1", "5", *FEW)
    assert found["methods"]["ce"]["differences"]
    validate("shift", found)


@pytest.mark.parametrize("kind", ["methods", "mixers", "models", "data", "corruptions", "metrics", "calibrators", "experiments"])
def test_lists(kind, capsys):
    validate("list", printed(capsys, "list", kind))


def test_the_files_of_a_run(run, capsys):
    for name in ("run", "splits", "env", "result"):
        validate(name, json.loads((run / f"{name}.json").read_text(encoding="utf-8")))
    lines = (run / "log.jsonl").read_text(encoding="utf-8").splitlines()
    assert lines
    for line in lines:
        validate("log", json.loads(line))
    assert json.loads(lines[0])["dial"], "the method of this test has a dial, so that it is validated too"
    (run.parent / "broken").mkdir(exist_ok=True)
    listed = printed(capsys, "runs", "--runs", run.parent)
    assert listed["runs"]
    assert listed["broken"]
    validate("runs", listed)


def test_what_training_prints_is_the_result(run, capsys):
    assert main(["train", "--resume", str(run), "--json"]) == 0
    validate("result", json.loads(capsys.readouterr().out))


def test_tournament(tmp_path):
    validate("tournament", json.loads(json.dumps(tournament(cells_of(COLUMNS["digits"], ["mixup"], 1), tmp_path, {"ce": 1.0}).to_dict())))


def test_doctor(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    validate("doctor", printed(capsys, "doctor"))


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_valid_allows_more_keys_and_asks_for_those_that_it_names(name):
    schema = SCHEMAS[name]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"].endswith(f"/docs/schemas/{name}.json")
    assert '"additionalProperties": false' not in json.dumps(schema), "keys may be added"
    example = examples()[name]
    if name != "list":
        validate(name, {**example, "added_later": {"any": 1}})
    for key in schema.get("required", []):
        less = copy.deepcopy(example)
        del less[key]
        with pytest.raises(jsonschema.ValidationError, match=f"'{key}' is a required property"):
            validate(name, less)


def examples() -> dict[str, dict]:
    """The JSON of each section of the page, by the schema that the title of the section names."""
    sections = re.findall(r"^## (\S+)\n(?:(?!^## ).)*?```json\n(.*?)```", PAGE, flags=re.MULTILINE | re.DOTALL)
    return {TITLES.get(title, title): json.loads(text) for title, text in sections}


def test_the_page_has_an_example_of_every_schema():
    found = examples()
    assert set(found) == set(SCHEMAS), "docs/reference/file-formats.md has a section with an example for each file in docs/schemas"
    for name, example in found.items():
        validate(name, example)


def test_the_python_example_of_the_page_runs(monkeypatch):
    monkeypatch.chdir(ROOT)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(example, {})


def test_the_extras_of_the_install_page_are_those_of_the_package():
    import tomllib

    page = (ROOT / "docs" / "guides" / "install.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?`) \|", page, flags=re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert named == set(extras), "docs/guides/install.md lists the extras of pyproject.toml"


def test_the_version_of_the_library_is_the_one_that_runs(run):
    assert json.loads((run / "env.json").read_text(encoding="utf-8"))["packages"]["rankmixup"] == rm.__version__
