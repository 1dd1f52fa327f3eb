"""The documentation site: every registered thing has its page, every public name its entry, and the whole of it builds."""

import importlib
import json
import pkgutil
import re
import shlex
import subprocess
import sys
import urllib.parse
import zlib
from pathlib import Path

import pytest

import rankmixup
from rankmixup.cli.main import COMMANDS
from rankmixup.cli.train_command import requested_run

pytest.importorskip("sphinx")
ROOT = Path(__file__).parent.parent
KINDS = ("methods", "metrics", "calibrators")


@pytest.fixture
def extension(monkeypatch):
    """Imports a module of docs/_ext."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    return importlib.import_module


@pytest.mark.parametrize("kind", KINDS)
def test_everything_registered_has_the_text_of_its_page_and_no_text_is_left_over(kind, extension):
    from docutils.utils.math.latex2mathml import tex2mathml

    cards = extension("cards")
    assert set(cards.TEXTS[kind]) == set(cards.registered(kind))
    for key in cards.registered(kind):
        text = cards.text_of(kind, key)
        for formula in (text["equation"], *text.get("symbols", {}).values(), *re.findall(r"\$(.*?)\$", text["where"])):
            assert tex2mathml(formula).startswith("<math")


def test_a_missing_text_is_refused_with_what_to_write_where(extension, monkeypatch):
    cards, commands = extension("cards"), extension("commands")
    monkeypatch.setitem(cards.TEXTS["methods"], "focal", {"title": "Focal loss", "idea": "Less.", "where": "", "equation": "x"})
    said = r"'focal' of methods has no card: write where, use, reference below \[methods.focal\] in docs/cards.toml"
    with pytest.raises(LookupError, match=said):
        cards.text_of("methods", "focal")
    with pytest.raises(LookupError, match=r"'new' of metrics has no card: write title, idea, .* below \[metrics.new\]"):
        cards.text_of("metrics", "new")
    monkeypatch.delitem(cards.TEXTS["commands"], "train")
    with pytest.raises(LookupError, match="command 'train' has no examples"):
        commands.examples_of("train")


def test_a_method_card_shows_its_fields_and_the_numbers_of_the_study(extension):
    cards = extension("cards")
    stored = json.loads((ROOT / "results" / "cpu" / "tournament.json").read_text())["standings"]
    by_row = {(each["row"], each["column"]): each for each in stored}
    row, ce = by_row["rankmixup-mrl", "digits"], by_row["ce", "digits"]
    percent = [row["plain"]["accuracy"], row["plain"]["ece"], row["after"]["ece"], ce["after"]["ece"]]
    shown = next(iter(cards.standing_rows("rankmixup-mrl")))
    assert shown[:5] == ["digits", *(f"{100 * each['value']:.1f}" for each in percent)]
    assert [each[0] for each in cards.standing_rows("focal")].count("digits (`gamma=auto`)") == 1
    fields = cards.fields_of(cards.registered("methods")["rankmixup-mrl"], cards.text_of("methods", "rankmixup-mrl")["symbols"])
    assert "| `margin` | $m$ | `2.0` | Margin m between" in fields
    assert "| `mixer` | $\\alpha$ | `Mixup(alpha=2.0)` | How samples are mixed" in fields
    assert "One of `'logit'`, `'probability'`, `'log-odds'`." in fields


def test_the_choice_of_methods_follows_the_stored_numbers(extension, monkeypatch):
    choices = extension("choices")
    mean_of = choices.mean_of
    stored = json.loads((ROOT / "results" / "cpu" / "tournament.json").read_text())["standings"]

    def means(columns, field):
        found = {row: [each[field]["value"] for each in stored if each["row"] == row and each["column"] in columns] for row in choices.ROWS}
        return {row: sum(values) / len(values) for row, values in found.items() if len(values) == len(columns)}

    for columns in (choices.BALANCED, choices.TAILED):
        ece, accuracy = means(columns, "ece_above"), means(columns, "accuracy_above")
        allowed = [row for row in ece if row != "ce" and accuracy[row] >= -0.01]
        first = min(allowed, key=ece.__getitem__)
        shown = next(iter(choices.best("", columns, "methods")))
        assert shown[1] == choices.linked(first)
        assert shown[3:5] == [f"{100 * ece[first]:+.1f}", f"{100 * accuracy[first]:+.1f}"]
        assert f"of {len(allowed)} methods" in shown[2]

        with monkeypatch.context() as changed:
            changed.setattr(choices, "mean_of", lambda row, *asked, worse=first: mean_of(row, *asked) + (row == worse))
            assert choices.candidates(columns)[-1] == first, "a method with a larger error is no longer chosen"
    assert set(choices.candidates(choices.BALANCED, choices.plain_loss)) <= set(choices.candidates(choices.BALANCED))
    assert not any(choices.tuned(row) for row in ("ce", "mixup", "focal"))
    assert all(choices.tuned(row) for row in ("rankmixup-auto", "rankmixup-list", "focal/gamma=auto"))
    guide = (ROOT / "docs" / "guides" / "choose-a-method.md").read_text()
    assert re.search(r"such as `(.*?)`", guide)[1] in choices.candidates(choices.BALANCED)[:2], "the guide begins with one of the best two"


@pytest.mark.parametrize("method", rankmixup.list_methods())
def test_the_command_of_a_method_card_is_understood(method):
    run, _ = requested_run([method, "--data", "digits"])
    assert run.method.name == method


def test_every_command_has_examples_whose_options_exist(extension):
    commands = extension("commands")
    assert set(commands.TEXTS["commands"]) == set(COMMANDS)
    for command in COMMANDS:
        help_text = commands.help_of(command)
        assert max(map(len, help_text.splitlines())) <= commands.WIDTH
        assert "\x1b" not in help_text
        for line in commands.examples_of(command).splitlines():
            words = shlex.split(line, comments=True)
            assert words[:2] == ["rankmixup", command]
            own = commands.help_of(*words[1:3]) if command in ("train", "sweep") and not words[2].startswith("-") else help_text
            for flag in (word for word in words if word.startswith("--")):
                assert flag in ("--resume", "--data") or re.search(rf"{flag}\b", own), line


def test_the_reference_has_every_public_name(extension):
    api = extension("api")
    pages = {module.__name__: api.page_of(module) for module in api.public_modules()}
    for info in pkgutil.walk_packages(rankmixup.__path__, "rankmixup."):
        if info.name.endswith("__main__"):
            continue
        module = importlib.import_module(info.name)
        for name in getattr(module, "__all__", ()) if info.ispkg or info.name in pages else ():
            home = api.home_of(module, name).__name__
            entry = rf"\.\. auto(class|function):: {home}\.{name}\n|\.\. py:data:: {name}\n   :module: {home}\n"
            assert re.search(entry, pages[home]), f"{info.name}.{name}"
    top = (ROOT / "docs" / "reference" / "index.md").read_text()
    for name in rankmixup.__all__:
        assert re.search(rf"`rm\.{name}`|autofunction:: rankmixup\.{name}\n", top) or name == "__version__", name


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_has_its_pages(tmp_path):
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", str(ROOT / "docs"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {page.relative_to(tmp_path).as_posix(): page.read_text() for page in tmp_path.rglob("*.html")}
    assert {"index.html", "search.html", "start/get-started.html", "guides/your-loop.html", "explanations/glossary.html"} <= set(pages)
    assert {"methods/rankmixup-auto.html", "metrics/ece.html", "calibrators/temperature.html", "reference/command-line.html"} <= set(pages)
    assert {"guides/dials.html", "guides/faq.html", "explanations/calibration.html", "explanations/resume.html"} <= set(pages)
    assert "lowest mean ECE of" in pages["guides/choose-a-method.html"]
    assert "<math" in pages["methods/rankmixup-mrl.html"]
    assert "<mtext>\\" not in "".join(pages[name] for name in pages if name.startswith(KINDS)), "a TeX command was not understood"
    assert f"Version {rankmixup.__version__}" in pages["index.html"]
    assert "/edit/main/docs/guides/your-loop.md" in pages["guides/your-loop.html"]
    assert "/edit/main/docs/cards.toml" in pages["methods/ce.html"]
    for name, text in pages.items():
        assert not re.search(r"<(?:script|img|iframe)[^>]* src=\"(?:https?:)?//", text), f"{name} loads from another site"
        for link in set(re.findall(r"(?:href|src)=\"([^\"#]+)", text)):
            parts = urllib.parse.urlsplit(link)
            if parts.scheme in ("http", "https"):
                assert parts.hostname, f"{name}: {link}"
            elif not parts.scheme:
                path = (tmp_path / name).parent / urllib.parse.unquote(parts.path)
                assert path.exists(), f"{name}: {link}"
    inventory = zlib.decompress((tmp_path / "objects.inv").read_bytes().split(b"\n", 4)[4]).decode()
    documented = {line.split()[0] for line in inventory.splitlines()}
    assert {"rankmixup.methods.objective", "rankmixup.evaluation.METRICS", "rankmixup.posthoc.Calibrator.fit"} <= documented
