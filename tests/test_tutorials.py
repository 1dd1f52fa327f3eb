"""Tutorials run line by line and print what they show; `python -m studies.tutorials` refreshes what they show."""

import shutil
from pathlib import Path

import pytest

from studies.tutorials import HEAD, PAGES, TAIL, WIDTH, cleaned, differences, executed, in_own_process, pictures, run_bash
from tests.pages import DOCS

PAGE = """Text.

```python
a = 2
```

```output
stale
```

```python
print(a + 1)
```

```bash
echo said; echo aside >&2
```

```output
stale too
```

```toml
a = 1
```

End.
"""


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder, with the present one and the environment put back afterwards."""
    monkeypatch.chdir(tmp_path)
    for name in ("PATH", "COLUMNS", "NO_COLOR", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("RANKMIXUP_DATA", "elsewhere")
    return tmp_path


def test_outputs_replace_old_ones_and_the_rest_of_the_page_stays(elsewhere):
    written = executed(PAGE, elsewhere)
    assert written == (
        PAGE.replace("```output\nstale\n```\n\n", "")
        .replace("print(a + 1)\n```\n", "print(a + 1)\n```\n\n```output\n3\n```\n")
        .replace("stale too", "said")
    )
    assert executed(written, elsewhere) == written


def test_blocks_share_names_and_files_and_do_not_see_settings_of_this_machine(elsewhere):
    page = """```python
# mine.py: a file
VALUE = 5
```

```python
import os, mine
print(mine.VALUE, "RANKMIXUP_DATA" in os.environ)
```

```bash
python -c "import mine; print(mine.VALUE)"
```
"""
    path = elsewhere / "page.md"
    path.write_text(page)
    folder = elsewhere / "empty"
    folder.mkdir()
    shown = in_own_process(path, folder)
    assert "```output\n5 False\n```" in shown
    assert shown.endswith("```output\n5\n```\n")


def test_what_fails_ends_the_page_with_what_it_said(elsewhere):
    with pytest.raises(RuntimeError, match=r"exit status 3 of\n(.|\n)*first\nwhy"):
        run_bash("echo first; (echo why >&2; exit 3); echo never")
    with pytest.raises(ZeroDivisionError):
        executed("```python\n1 / 0\n```\n", elsewhere)


def test_output_has_no_colours_paths_bars_or_wide_lines(tmp_path):
    text = f"\x1b[1mbold\x1b[0m   \n 10%\r100%\nin {tmp_path}/runs/a\nat {tmp_path}\n{'word ' * 40}\n\n"
    first, second, third, fourth, *wide = cleaned(text, tmp_path).splitlines()
    assert (first, second, third, fourth) == ("bold", "100%", "in runs/a", "at .")
    assert [len(line) <= WIDTH for line in wide] == [True, True]
    lines = cleaned("\n".join(map(str, range(100))), tmp_path).splitlines()
    assert lines[HEAD - 1 : HEAD + 2] == [str(HEAD - 1), f"... {100 - HEAD - TAIL} lines more ...", str(100 - TAIL)]


def test_differences_are_of_words_not_of_numbers():
    kept = "run d0c2ebd2c0da: ECE  4.39 %  p <0.001 miscalibrated\n────"
    assert not differences(kept, "run 15d3ca82ad0b: ECE 10.1 % p 0.2   not distinguishable from calibrated\n──────")
    assert "+run #: NLL" in differences(kept, kept.replace("ECE", "NLL"))
    assert differences(kept, kept + "\nmore")


def test_a_picture_that_no_block_made_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("![Two](images/two.png)")
    with pytest.raises(FileNotFoundError, match=r"page.md must make one file named two.png, and makes 0"):
        pictures(page, tmp_path)
    (tmp_path / "run").mkdir()
    made = shutil.copy(page, tmp_path / "run" / "two.png")
    assert pictures(page, tmp_path / "run") == {tmp_path / "images" / "two.png": Path(made)}


NEEDS = {"photos-to-onnx.md": "onnxruntime", "hugging-face.md": "transformers"}


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_prints_what_it_shows(page, tmp_path):
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name])
    found = differences(page.read_text(encoding="utf-8"), in_own_process(page, tmp_path))
    name = page.relative_to(DOCS.parent)
    assert not found, f"{name} does not show what it prints: run `python -m studies.tutorials {name}` and read the page again\n{found}"
    for target in pictures(page, tmp_path):
        assert target.exists(), f"{target.name} is missing: run `python -m studies.tutorials {name}`"
