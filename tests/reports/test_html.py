import base64
import hashlib
import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

import rankmixup
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import Evaluation, Scores
from rankmixup.evaluation.paired_tests import PairedTests, paired_tests
from rankmixup.files import write_json
from rankmixup.metrics import classwise_calibration_error
from rankmixup.reports.entry import run_protocol
from rankmixup.reports.export import write_text
from rankmixup.reports.groups import class_tables, group_tables
from rankmixup.reports.html import breakable, distinct, render_report, report_date
from rankmixup.reports.html_tables import metric_notes, overview_table, protocol_table, summary_table, verdict
from rankmixup.runs import Run, StoredRun
from tests.reports.entries import HOSTILE, make_entry
from tests.runs.records import run_result, split_manifest


class Page(HTMLParser):
    """Elements, attributes and texts, as a browser finds them."""

    def __init__(self, markup: str):
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self._inside, self._joined = "", False
        self.feed(markup)

    def handle_starttag(self, tag, attrs):
        if tag == "wbr":  # a place where a line may break, within one text
            self._joined = True
            return
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        if tag in ("script", "style"):
            self.scripts.append("")

    def handle_data(self, data):
        if self._inside in ("script", "style"):
            self.scripts[-1] += data
        elif self._joined:
            self.texts[-1] += data
        else:
            self.texts.append(data)
        self._joined = False

    def handle_endtag(self, tag):
        self._inside = ""

    def attributes(self, name):
        return [attributes[name] for _, attributes in self.elements if name in attributes]


@pytest.fixture(scope="module")
def entries():
    return [make_entry("<script>alert(0)</script>", class_names=HOSTILE), make_entry("plain", calibrate=False, seed=1)]


@pytest.fixture(scope="module")
def markup(entries):
    return render_report(entries, title="Title & <b>more</b>", tests=PairedTests(reason="a must be like b"))


@pytest.fixture(scope="module")
def page(markup):
    return Page(markup)


def test_all_sections_are_there_and_linked(page):
    identifiers = page.attributes("id")
    sections = ["summary", "metrics", "differences", "figures", "ood", "models", "protocol", "reading"]
    assert [attributes["id"] for tag, attributes in page.elements if tag == "section"] == sections
    links = [link.removeprefix("#") for tag, attributes in page.elements if tag == "a" and (link := attributes["href"])]
    assert set(links) <= set(identifiers)
    assert Counter(identifiers).most_common(1)[0][1] == 1
    assert set(page.attributes("aria-labelledby")) <= set(identifiers)


def test_names_from_outside_stay_text(page, markup):
    tags = Counter(tag for tag, _ in page.elements)
    assert tags["script"] == 3  # two data islands and the page's own
    assert tags["img"] == tags["b"] == 0
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    shown = {text.strip() for text in page.texts}
    for name in HOSTILE:
        assert name.strip() in shown
    assert "Title & <b>more</b>" in shown
    assert "alert(1)</script>" not in markup


def test_nothing_outside_is_referred_to(page, markup):
    assert not re.findall(r"https?:|//[a-z]", markup.split("<body>")[1].split("report-data")[0])
    assert not re.findall(r"@import|url\((?!#)", markup)
    for name in ("src", "action", "srcset", "data"):
        assert not page.attributes(name)
    assert all(link.startswith(("#", "data:")) for link in page.attributes("href"))


def test_policy_allows_the_pages_own_script_and_style_and_nothing_else(page):
    (policy,) = [attributes["content"] for _, attributes in page.elements if attributes.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    style, *_, script = page.scripts
    for kind, source in (("style-src", style), ("script-src", script)):
        assert rules[kind] == f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"
    assert "unsafe" not in policy
    assert not page.attributes("style")


def test_numbers_in_full_are_in_the_data_island(page, entries):
    island = json.loads(page.scripts[1])
    assert island == {entry.name: entry.evaluation.to_dict() for entry in entries}


def test_every_figure_has_words_for_those_who_cannot_see_it(page):
    drawings = [attributes for tag, attributes in page.elements if tag == "svg"]
    assert len(drawings) == 3 + 6 + 4  # shared ones, and those of each model, some before and after calibration
    assert all(attributes["role"] == "img" and len(attributes["aria-label"]) > 40 for attributes in drawings)


def test_class_table_holds_each_class():
    entry = make_entry(samples=300, classes=4, class_names=list("abcd"))
    table, after = class_tables(entry.name, entry.evaluation)
    (alone,) = class_tables(entry.name, replace(entry.evaluation, test=entry.evaluation.calibrated, calibration=None))
    assert [row[1:] for row in after.rows] == [row[1:] for row in alone.rows]
    assert (table.caption, after.caption) == ("Classes of model", "Classes of model, after calibration")
    probs, labels = entry.scores.probs, entry.scores.labels
    top, prediction = probs.max(dim=1)
    for position, (name, count, accuracy, _, confidence, gap, *_) in enumerate(table.rows):
        mine = labels == position
        assert (name, count) == ("abcd"[position], int(mine.sum()))
        assert float(accuracy) == pytest.approx(100 * (prediction == labels)[mine].double().mean().item(), abs=0.005)
        assert float(confidence) == pytest.approx(100 * top[mine].mean().item(), abs=0.005)
        assert float(gap) == pytest.approx(float(confidence) - float(accuracy), abs=0.011)
    mean = sum(float(row[8]) for row in table.rows) / 4
    assert mean == pytest.approx(100 * classwise_calibration_error(probs, labels, from_logits=False).item(), abs=0.005)


def test_groups_have_every_column_before_and_after_calibration():
    logits, labels = 3 * torch.randn(80, 3, generator=torch.Generator().manual_seed(0)), torch.arange(80) % 3
    groups = {"site": ["north", "south"] * 40}
    calibrate_on = (logits.flip(0), labels.flip(0))
    report = rankmixup.evaluate(logits, labels, calibrate_on=calibrate_on, groups=groups, replicates=20)
    before, after = group_tables("site", report.groups["site"])
    assert before.columns == after.columns
    assert (before.caption, after.caption) == ("Groups by site", "Groups by site, after calibration")
    south = report.groups["site"].after.groups["south"]
    nll = after.columns.index("NLL")
    assert after.rows[1][nll] == f"{south.metrics['nll'].value:.4f}" != before.rows[1][nll]


def test_a_class_without_samples_has_no_accuracy():
    scores = Scores(torch.tensor([[2.0, 0.0, 1.0]]), torch.tensor([0]))
    rows = class_tables("one sample", Evaluation("a", 1, 3, {}, test=scores))[0].rows
    assert rows[1][:8] == ["1", 0, "", "", "", "", "", ""]


def test_verdict_says_what_the_numbers_say():
    before = verdict(make_entry())
    assert before.headline.startswith("overconfident, miscalibrated; after calibration ")
    text = " ".join(before.sentences)
    assert "p <0.001" in text
    assert "T = 2.500, fitted on val.npz" in text
    assert "noise floor of a calibrated model is 2.00 to 5.00\u00a0%" in text
    assert "do not rely" not in text


def test_verdict_warns_of_a_fit_that_failed_or_cheated():
    entry = make_entry()
    calibration = replace(entry.evaluation.calibration, converged=False, same_data=True)
    text = " ".join(verdict(replace(entry, evaluation=replace(entry.evaluation, calibration=calibration))).sentences)
    assert "did not converge" in text
    assert "fitted and evaluated on the same data" in text


def test_tables_without_calibration_have_no_columns_for_it(entries):
    assert not any("after" in column for column in summary_table(entries[1:]).columns)
    both = summary_table(entries)
    assert both.rows[1][-3:] == [None, None, None]


def test_metrics_are_rows_unless_there_are_more_models():
    one = make_entry("one", samples=50, classes=6)
    table = overview_table([one])
    assert table.columns == ["metric", "one", "one, calibrated"]
    ece = next(row for row in table.rows if row[0] == "ECE, %")
    assert ece[1:] == [f"{100 * one.evaluation.value('ece', calibrated=after):.2f}" for after in (False, True)]
    many = overview_table([replace(one, name=f"model {number}") for number in range(10)])
    assert (many.columns[0], len(many.rows), many.rows[1][0]) == ("model", 20, "model 0, calibrated")
    assert many.rows[1][many.columns.index("ECE, %")] == ece[2]


def test_paired_tests_are_shown_or_the_reason_why_not(page):
    assert "There are no paired tests of the differences between these models: a must be like b." in {text.strip() for text in page.texts}
    entries = [make_entry("first", calibrate=False, sharpness=1.0), make_entry("second", calibrate=False)]
    tests = paired_tests({entry.name: entry.evaluation for entry in entries}, replicates=50)
    (comparison,) = tests.comparisons
    difference = comparison.models["second"]["ece"].difference
    texts = {text.strip() for text in Page(render_report(entries, tests=tests)).texts}
    shown = f"{100 * difference.value:+.2f} ({100 * difference.low:+.2f} to {100 * difference.high:+.2f})"
    assert {shown, "Differences from first, before calibration"} <= texts
    assert "differences" not in Page(render_report(entries)).attributes("id")


def test_failed_conditions_come_first():
    entry = make_entry(samples=20, classes=3)
    texts = Page(render_report([replace(entry, evaluation=replace(entry.evaluation, failed=("ece>1%",)))])).texts
    found = [text.strip() for text in texts if text.strip()]
    assert found.index("Failed: 1 condition") + 1 == found.index("ece>1%")
    assert found.index("ece>1%") < next(place for place, text in enumerate(found) if text.startswith("Right in "))


def test_a_maximum_that_few_samples_decide_is_explained():
    entry = make_entry(samples=60, classes=3)
    metrics = entry.evaluation.metrics
    assert metric_notes(entry) == []
    few = {**metrics, "mce": replace(metrics["mce"], verdict="rests on a bin of 3 samples")}
    (note,) = metric_notes(replace(entry, evaluation=replace(entry.evaluation, metrics=few)))
    assert "fewer than 30 samples" in note
    assert note.endswith("here MCE rests on a bin of 3 samples.")


def test_equal_inputs_give_equal_pages_with_date_and_versions(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86399")
    first, second = (render_report([make_entry(samples=50, classes=3)]) for _ in range(2))
    assert first == second
    assert f"Made by rankmixup {rankmixup.__version__} on 1970-01-01, with torch {torch.__version__.split('+')[0]}" in first
    assert f"numpy {np.__version__}" in first
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert "on 1970-01-02, with" in render_report([make_entry(samples=50, classes=3)])
    for wrong in ("today", "1e9", "9" * 30):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", wrong)
        with pytest.raises(InvalidInput, match="SOURCE_DATE_EPOCH must be a whole number of seconds since 1970, got"):
            report_date()


def test_absolute_paths_stay_off_the_page():
    entries = [make_entry(samples=20, classes=3) for _ in range(2)]
    sources = ["/secret/home/one/test.npz", "/secret/home/two/test.npz"]
    entries = [
        replace(entry, name=source, evaluation=replace(entry.evaluation, source=source))
        for entry, source in zip(entries, sources, strict=True)
    ]
    markup = render_report(entries)
    assert "secret" not in markup
    assert "one/test.npz" in markup.replace("<wbr>", "")


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("resnet110_cifar10_test.npz", ["resnet110_", "cifar10_", "test.npz"]),
        ("no difference shown", ["no difference shown"]),
        ("x" * 30, ["x" * 16, "x" * 14]),
        ("<b>&", ["&lt;b&gt;&amp;"]),
        ("", [""]),
    ],
)
def test_names_break_after_separators_and_words_do_not(text, pieces):
    assert str(breakable(text)).split("<wbr>") == pieces


def test_protocol_names_classes(entries):
    names = [f"c{number}" for number in range(25)]
    rows = {row[0]: row[1] for row in protocol_table([make_entry(samples=60, classes=25, class_names=names)]).rows}
    assert rows["classes"] == f"25: {', '.join(names[:20])} and 5 more"


def test_protocol_shows_splits_temperature_seed_and_versions(entries):
    rows = {row[0]: row[1:] for row in protocol_table(entries).rows}
    assert rows["calibration: fitted on"] == ["val.npz", ""]
    assert rows["calibration: temperature"] == ["2.5", ""]
    assert rows["calibration"] == ["", "none"]
    assert rows["seed"] == ["3", "3"]
    assert rows["splits: test"] == ["400 samples", "400 samples"]
    assert rows["versions: torch"] == ["2.x", "2.x"]


def test_protocol_of_a_run(tmp_path):
    stored = StoredRun.locate(tmp_path, Run("ce", seed=7))
    stored.create()
    write_json(stored.path / "splits.json", split_manifest(test={"size": 1000, "sha256": "abcdef0123456789"}))
    write_json(stored.path / "env.json", {"python": "3.11", "packages": {"torch": "2.6"}})
    write_json(stored.path / "result.json", run_result(stored.run, selection={"rule": "accuracy", "epoch": 4}))
    entry = replace(make_entry(calibrate=False), protocol=run_protocol(stored))
    rows = {row[0]: row[1] for row in protocol_table([entry]).rows}
    assert rows["seed"] == "7"
    assert rows["run"] == stored.run.id
    assert rows["selection"] == "accuracy on validation, epoch 4"
    assert rows["splits: test"] == "1,000 samples, sha256 abcdef012345"
    assert rows["versions: torch"] == "2.6"
    assert rows["method: name"] == "ce"


def test_names_given_twice_are_told_apart():
    names = ["same", "same (2)", "other", "same"]
    assert [entry.name for entry in distinct([make_entry(name, samples=20, classes=3) for name in names])] == [*names[:3], "same (3)"]


def test_files_are_called_by_their_own_name():
    def named(*sources):
        made = [make_entry(samples=20, classes=3) for _ in sources]
        entries = [
            replace(entry, name=source, evaluation=replace(entry.evaluation, source=source))
            for entry, source in zip(made, sources, strict=True)
        ]
        return [entry.name for entry in distinct(entries)]

    assert named("folder/a.npz", "folder/b.npz") == ["a.npz", "b.npz"]
    assert named("one/test.npz", "two/test.npz") == ["one/test.npz", "two/test.npz"]


def test_written_whole(tmp_path):
    path = write_text(tmp_path / "report.html", render_report([make_entry(samples=20, classes=3)]))
    text = path.read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert text.rstrip().endswith("</html>")
    assert list(tmp_path.iterdir()) == [path]


def test_wrong_requests_are_refused_in_one_sentence(tmp_path):
    with pytest.raises(InvalidInput, match="at least one model, got none"):
        render_report([])
    with pytest.raises(InvalidInput, match="must be in a folder that exists"):
        write_text(tmp_path / "nowhere" / "report.html", "")


@pytest.mark.slow
def test_five_models_of_a_thousand_classes_stay_below_two_megabytes():
    names = [f"a class with a name of some length, number {number}" for number in range(1000)]
    entries = [make_entry(f"model {seed}", samples=5000, classes=1000, seed=seed, class_names=names) for seed in range(5)]
    assert len(render_report(entries).encode()) < 2e6


def test_of_many_classes_the_worst_are_shown_and_the_page_says_so():
    entry = make_entry("model", samples=2000, classes=300, seed=0)
    found = entry.evaluation.classes
    before = class_tables("model", entry.evaluation)[0]
    shown = {int(row[0]) for row in before.rows}
    assert len(shown) == 200
    assert "the 200 with the largest classwise ECE; --class-csv writes the other 100 too" in before.caption
    errors = {each.index: each.before.classwise_ece for each in found}
    assert min(errors[index] for index in shown) >= max(errors[index] for index in errors if index not in shown)
    few = class_tables("model", make_entry("model", samples=200, classes=10, seed=0).evaluation)[0]
    assert (len(few.rows), few.caption) == (10, "Classes of model")
