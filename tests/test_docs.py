"""Documents name tests and functions that exist."""

import re
from pathlib import Path

import pytest

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


def test_every_method_mixer_and_function_has_its_row_in_the_paper_document():
    from rankmixup.methods import Method
    from rankmixup.mixers import Mixer

    text = (ROOT / "docs" / "paper.md").read_text()
    for registry in (Method.registry, Mixer.registry):
        for key in registry:
            assert f"`{key}`" in text, key
            assert f"`{registry[key].__name__}`" in text, key


def test_the_example_of_watching_gives_what_it_says():
    text = (ROOT / "docs" / "watching.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    *_, raw, mixed, _ = example.strip().splitlines()
    names: dict[str, object] = {}
    exec(example, names)
    for line in (raw, mixed):
        code, _, said = line.partition("#")
        assert float(eval(code, names)) == float(said.split(":")[0])
