"""What the README shows, runs."""

import re
from pathlib import Path

import torch
from PIL import Image

import rankmixup as rm
from rankmixup.mixers import Mixer

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_first_screen_holds_the_commands_and_an_example_of_at_most_ten_lines():
    screen = "\n".join(README.splitlines()[:40])
    assert "make demo" in screen
    assert "make test" in screen
    (example,) = blocks("python")
    assert example in screen
    assert len(example.strip().splitlines()) <= 10
    assert "![" in screen


def test_the_example_runs_and_trains(monkeypatch):
    (example,) = blocks("python")
    names: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), names)
    assert torch.isfinite(names["loss"])
    assert names["step"].steps == 2


def test_it_counts_what_is_registered():
    names = {"methods": rm.list_methods(), "mixers": Mixer.registry, "metrics": rm.list_metrics(), "calibrators": rm.list_calibrators()}
    *first, last = (f"{len(list(each))} {kind}" for kind, each in names.items())
    counts = f"{', '.join(first)} and {last}"
    assert counts in README, f"README.md must say: {counts}"


def test_it_has_at_most_120_lines():
    assert len(README.splitlines()) <= 120


def test_every_make_target_and_link_exists():
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"\bmake ([a-z][a-z-]*)", README)):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
    for link in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / link).exists(), link


def test_every_command_shown_is_understood(tmp_path, monkeypatch):
    """Up to the point where it would train or read a file."""
    from rankmixup.cli.train_command import requested_run

    monkeypatch.chdir(tmp_path)
    for name in ("cats", "dogs"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        Image.new("RGB", (32, 32)).save(tmp_path / "photos" / name / "1.png")
    shown = [line.split("#")[0].split() for block in blocks("bash") for line in block.splitlines()]
    shown += [line.split() for line in re.findall(r"`(rankmixup train [^`]*)`", README)]
    trained = [words[2:] for words in shown if words[:2] == ["rankmixup", "train"] and "--help" not in words]
    assert trained
    for words in trained:
        requested_run(words)
