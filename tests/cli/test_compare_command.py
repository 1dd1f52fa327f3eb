"""`rankmixup compare`: names, calibration, conditions and files; exit statuses 0, 1 and 2."""

import csv
import itertools
import json
import re
import statistics

import numpy as np
import pytest
import scipy.stats

import rankmixup as rm
from rankmixup.cli.main import main
from rankmixup.evaluation import evaluate_scores
from rankmixup.evaluation.significance import over_seeds
from rankmixup.reports.files import page_entries
from rankmixup.reports.html_tables import verdict
from rankmixup.runs import Run
from tests.paper.stored import store
from tests.test_schemas import validate

FEW = ["--replicates", "50"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """One test set and one validation set of two models: b knows what a knows, but is three times too sure."""
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    for part in ("test", "val"):
        logits = draw.normal(size=(300, 6)) * 1.5
        probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        labels = (probs.cumsum(1) < draw.random((300, 1))).sum(1).clip(max=5)
        for name, scale in (("a", 1.0), ("b", 3.0)):
            (tmp_path / name).mkdir(exist_ok=True)
            np.savez(tmp_path / name / f"{part}.npz", logits=scale * logits, labels=labels)
            np.savez(tmp_path / f"{name}-{part}.npz", logits=scale * logits, labels=labels)
    return tmp_path


def compared(capsys, *arguments: str, status: int = 0) -> dict:
    assert main(["compare", *arguments, *FEW, "--json"]) == status
    return json.loads(capsys.readouterr().out)


def refused(capsys, *arguments: str) -> str:
    assert main(["compare", *arguments, *FEW]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    return captured.err


def test_the_command_and_the_function_agree(folder, capsys):
    files = {part: {name: np.load(f"{name}-{part}.npz") for name in "ab"} for part in ("test", "val")}
    condition = "b.ece - a.ece > 20%"
    told = compared(
        capsys,
        *("a=a-test.npz", "b=b-test.npz", "--metric", "ece", "--metric", "nll", "--fail-if", condition),
        *("--calibrate-on", "a-val.npz", "b-val.npz", "--calibrate-with", "vector"),
    )
    report = rm.compare(
        {name: file["logits"] for name, file in files["test"].items()},
        files["test"]["a"]["labels"],
        calibrate_on={name: (file["logits"], file["labels"]) for name, file in files["val"].items()},
        calibrate_with="vector",
        metric=["ece", "nll"],
        fail_if=[condition],
        replicates=50,
    ).to_dict()
    assert told["calibration"]["b"]["fitted_on"] == "b-val.npz"
    for found in (told, report):
        for fit in found["calibration"].values():
            del fit["fitted_on"]
    assert told == json.loads(json.dumps(report))
    assert (told["metrics"], told["failed"]) == (["ece", "nll", "accuracy"], [])


def test_conditions_set_the_exit_status(folder, capsys):
    paths = ["a-test.npz", "b-test.npz"]
    holding, other = "b-test.ece - a-test.ece > 1%:low", "a-test.npz.ece > 90%"
    assert compared(capsys, *paths, "--fail-if", holding, "--fail-if", other, status=1)["failed"] == [holding]
    assert compared(capsys, *paths, "--fail-if", other)["failed"] == []
    # Calibrated, b is a.
    flags = ["--calibrate-on", "a-val.npz", "b-val.npz"]
    assert compared(capsys, *paths, *flags, "--fail-if", holding)["failed"] == []
    assert main(["compare", *paths, "--fail-if", holding, *FEW]) == 1
    assert f"failed: {holding}" in capsys.readouterr().out


def test_runs_are_calibrated_on_their_own_scores_only_if_asked(folder, capsys):
    runs = [str(store(folder / "runs", Run("ce", "digits", seed=0), sharpness).path) for sharpness in (1.0,)]
    other = store(folder / "more", Run("ce", "digits", seed=0), 3.0).path.rename(folder / "runs" / "sharp")
    runs.append(str(other))
    plain = compared(capsys, *runs)
    assert plain["calibration"] is None
    own = compared(capsys, *runs, "--calibrate-on", "own")
    assert [fit["fitted_on"] for fit in own["calibration"].values()] == ["val", "val"]
    assert own["models"][runs[1]]["ece"]["before"]["value"] == plain["models"][runs[1]]["ece"]["value"]
    text = refused(capsys, "a-test.npz", "b-test.npz", "--calibrate-on", "own")
    assert "--calibrate-on own must go with runs, which have validation scores, a-test.npz is a file" in text


def test_files_of_every_kind(folder, capsys):
    flags = [word for kind in ("html", "markdown", "latex", "csv") for word in (f"--{kind}", f"out.{kind}")]
    condition = "b.ece > 1%"
    found = compared(capsys, "a=a-test.npz", f"b={folder}/b-test.npz", "--fail-if", condition, *flags, status=1)
    text = {kind: (folder / f"out.{kind}").read_text() for kind in ("html", "markdown", "latex", "csv")}
    assert text["markdown"].startswith("**Failed: 1 condition**\n\n- b.ece &gt; 1%\n")
    assert max(line.count(" | ") for line in text["markdown"].splitlines()) <= 5
    difference = found["models"]["b"]["ece"]["difference"]
    assert f"{100 * difference['value']:+.2f} (" in text["markdown"]
    assert text["latex"].count(r"\begin{tabular}") == text["latex"].count(r"\caption{") == 3  # all metrics, and each
    rows = {(row["model"], row["metric"]): row for row in csv.DictReader(text["csv"].splitlines())}
    assert float(rows["b", "ece"]["difference_low"]) == difference["low"]
    assert text["html"].index("Failed: 1 condition") < text["html"].index("<table>")
    assert str(folder) not in text["html"]


def test_the_baseline_is_a_path_a_name_or_another_source(folder, capsys):
    for baseline in ("b-test.npz", "b-test", "./b-test.npz"):
        assert compared(capsys, "a-test.npz", "b-test.npz", "--baseline", baseline)["baseline"] == "b-test.npz"
    assert compared(capsys, "x=a-test.npz", "y=b-test.npz", "--baseline", "y")["baseline"] == "y"
    found = compared(capsys, "a-test.npz", "--baseline", "old=b-test.npz")
    assert (found["baseline"], list(found["models"])) == ("old", ["old", "a-test.npz"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["a/test.npz", "b/test.npz", "--fail-if", "test.ece > 1%"],
            "'test' could be a/test.npz or b/test.npz; NAME=PATH gives a model a name",
        ),
        (["a-test.npz", "b-test.npz", "--fail-if", "c.ece > 1%"], "unknown model 'c'"),
        (["a-test.npz", "b-test.npz", "--fail-if", "b-test.nll > 1"], "must be about a metric that is compared (ece, accuracy), got nll"),
        (["a-test.npz", "b-test.npz", "--fail-if", "ece > 1%"], "a condition must be MODEL.METRIC"),
        (["x=a-test.npz", "x=b-test.npz"], "compare must give each model its own name (NAME=...), got 'x' twice"),
        (["x=a-test.npz", "y=a-test.npz"], "compare must be given each run or file once, got a-test.npz twice"),
        (["=a-test.npz", "b-test.npz"], "optionally with NAME= before it, got '=a-test.npz'"),
        (["a-test.npz", "b-test.npz", "--baseline", "nothing"], "unknown model 'nothing'"),
        (["a-test.npz", "b-test.npz", "--calibrate-on", "a-val.npz"], "one file for each of 2 models, or the word own, got 1"),
        (
            ["a-test.npz", "b-test.npz", "--calibrate-with", "vector"],
            "--calibrate-with and --objective must go with --calibrate-on, got none",
        ),
        (["a-test.npz", "b-test.npz", "--metric", "smooth_ece"], "metric must be one whose difference has an interval"),
        (["a-test.npz", "b-test.npz", "--html", "nowhere/a.html"], "must be in a folder that exists"),
        (["a-test.npz", "c-test.npz"], "c-test.npz"),
    ],
)
def test_wrong_requests(arguments, message, folder, capsys):
    before = sorted(folder.iterdir())
    assert message in refused(capsys, *arguments)
    assert sorted(folder.iterdir()) == before


def test_models_of_one_stem_are_told_apart_by_their_folders(folder, capsys):
    condition = "b/test.ece - a/test.ece > 1%:low"
    assert compared(capsys, "a/test.npz", "b/test.npz", "--fail-if", condition, status=1)["failed"] == [condition]


@pytest.mark.slow
def test_a_report_of_models_of_one_test_set_has_their_differences(folder, capsys):
    assert main(["report", "a-test.npz", "b-test.npz", "--calibrate-on", "a-val.npz", "b-val.npz", "-o", "page.html", *FEW]) == 0
    text = (folder / "page.html").read_text()
    assert "Differences from a-test.npz, before calibration" in text
    assert "Differences from a-test.npz, after calibration" in text
    assert main(["report", "a-test.npz", "b-val.npz", "-o", "page.html", *FEW]) == 0
    assert "There are no paired tests" in (folder / "page.html").read_text()


def test_evaluate_writes_markdown_with_failures_first(folder, capsys):
    flags = ["--calibrate-on", "b-val.npz", "--fail-if", "ece>1%", "--fail-if", "calibrated.accuracy<99%", "--markdown", "b.md"]
    assert main(["evaluate", "b-test.npz", *flags, *FEW, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    lines = (folder / "b.md").read_text().splitlines()
    assert lines[:4] == ["**Failed: 2 conditions**", "", "- ece&gt;1%", "- calibrated.accuracy&lt;99%"]
    row = next(line for line in lines if line.startswith("| ECE, % |")).strip("| ").split(" | ")
    before, after = report["metrics"]["ece"], report["calibration"]["metrics"]["ece"]
    assert row[1] == "{:.2f} ({:.2f} to {:.2f})".format(*(100 * before[key] for key in ("value", "low", "high")))
    assert (row[2], row[3].split()[0], row[4]) == (before["verdict"], f"{100 * after['value']:.2f}", after["verdict"])
    assert max(line.count("|") for line in lines) <= 7


def test_compare_has_no_positive_class(folder, capsys):
    assert "--positive" in refused(capsys, "a-test.npz", "b-test.npz", "--positive", "1")


@pytest.fixture
def runs(tmp_path, monkeypatch) -> dict[str, str]:
    """Runs of two methods with three seeds on one test set, and one of a third; mbls is too sure."""
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    labels, found = draw.integers(5, size=200), {}
    for method, seed in [*itertools.product(("ce", "mbls"), range(3)), ("mixup", 1)]:
        logits = draw.normal(size=(200, 5)) + 2.0 * np.eye(5)[labels]
        stored = store(tmp_path / "runs", Run(method, "digits", seed=seed))
        for split in ("val", "test"):
            stored.write_predictions(split, logits=logits * (8 if method == "mbls" else 1), labels=labels)
        found[f"{method} {seed}"] = str(stored.path)
    return found


def test_runs_that_differ_in_their_seed_alone_are_one_model(runs, capsys):
    found = compared(capsys, *runs.values(), "--metric", "nll", "--fail-if", "mbls.nll - ce.nll > 0:low", status=1)
    assert list(found["models"]) == ["ce", "mbls", "mixup, seed 1"]
    validate("compare", found)
    assert (found["baseline"], found["seeds"]) == ("ce", {"ce": [0, 1, 2], "mbls": [0, 1, 2]})
    values = {name: rm.evaluate(*_test_scores(path), replicates=5).value("nll") for name, path in runs.items()}
    ce, mbls = ([values[f"{method} {seed}"] for seed in range(3)] for method in ("ce", "mbls"))
    told, expected = found["models"]["mbls"]["nll"], over_seeds(mbls)
    assert [told[key] for key in ("value", "low", "high")] == pytest.approx([expected.value, expected.low, expected.high])
    student = scipy.stats.ttest_rel(mbls, ce)
    difference, ends = told["difference"], student.confidence_interval()
    assert [difference[key] for key in ("value", "low", "high", "p_value")] == pytest.approx(
        [np.subtract(mbls, ce).mean(), ends.low, ends.high, student.pvalue]
    )
    assert difference["test"] == "paired t over seeds"
    # One seed in common: that pair, over samples.
    pair = compared(capsys, runs["ce 1"], runs["mixup 1"], "--metric", "nll")["models"]["mixup, seed 1"]["nll"]["difference"]
    single = found["models"]["mixup, seed 1"]["nll"]["difference"]
    assert single["test"] == "paired bootstrap, one run of each"
    assert [single[key] for key in ("value", "low", "high")] == [pair[key] for key in ("value", "low", "high")]


def test_each_run_may_stand_for_itself(runs, capsys):
    found = compared(capsys, *list(runs.values())[:4], "--each", "--baseline", runs["ce 2"])
    assert (list(found["models"]), found["baseline"]) == (["ce, seed 0", "ce, seed 1", "ce, seed 2", "mbls, seed 0"], "ce, seed 2")
    assert "seeds" not in found
    assert compared(capsys, *runs.values(), "--baseline", runs["mbls 2"])["baseline"] == "mbls"
    assert compared(capsys, *runs.values(), "--baseline", "mbls")["baseline"] == "mbls"
    named = compared(capsys, f"old={runs['ce 0']}", runs["ce 1"], runs["ce 2"])
    assert list(named["models"]) == ["old", "ce"]
    text = refused(capsys, runs["ce 0"], runs["ce 1"])
    assert text == "error: compare must be given at least two models, got runs of ce alone; --each compares its runs\n"


def test_models_are_never_called_by_an_id(runs, capsys, tmp_path):
    kinds = {kind: tmp_path / f"out.{kind}" for kind in ("html", "markdown", "latex", "csv")}
    flags = [word for kind, path in kinds.items() for word in (f"--{kind}", str(path))]
    assert main(["compare", *runs.values(), "--calibrate-on", "own", *flags, *FEW]) == 0
    few = [runs["ce 1"], runs["mixup 1"], runs["ce 0"]]
    assert main(["report", *few, "-o", "report.html", *FEW]) == 0
    page = (tmp_path / "report.html").read_text().replace("<wbr>", "")
    assert re.findall(r'<h3 id="model-\d-title">(.*?)</h3>', page) == ["ce", "mixup, seed 1"]
    assert "over seeds 0 and 1" in page
    assert page.count("Tables have means over 2 seeds") == 1
    assert ("Classes of ce" in page, "Classes of mixup, seed 1" in page) == (False, True)  # of several networks there are none
    assert ">0; 1" in page  # the seed, in the table about the protocol
    texts = [capsys.readouterr().out, *(path.read_text() for path in kinds.values())]
    for text in texts:
        assert not [path for path in runs.values() if path.rpartition("/")[2] in text]
        assert "mixup, seed 1" in text


def test_a_page_holds_pooled_runs_or_each(runs):
    stored = [rm.StoredRun.open(runs[name]) for name in ("mbls 0", "mbls 1")]
    evaluations = [evaluate_scores(each.scores("test"), each.scores("val"), source=str(each.path), replicates=50) for each in stored]
    assert [entry.name for entry in page_entries(evaluations, stored, each=True)] == ["mbls, seed 0", "mbls, seed 1"]
    (entry,) = page_entries(evaluations, stored)
    assert (entry.name, len(entry.scores), entry.evaluation.n, entry.evaluation.to_dict()["seeds"]) == ("mbls", 400, 200, [0, 1])
    found = {stage: over_seeds([each.value("ece", calibrated=stage) for each in evaluations]).value for stage in (False, True)}
    assert found == {stage: pytest.approx(entry.evaluation.value("ece", calibrated=stage)) for stage in (False, True)}
    assert entry.evaluation.metrics["ece"].low >= 0
    headline, sentences, calibrated = verdict(entry)
    assert (headline.partition(";")[0], calibrated) == ("overconfident, miscalibrated", True)
    assert not any("(p" in each for each in sentences)


def _test_scores(path: str) -> tuple[np.ndarray, np.ndarray]:
    stored = np.load(f"{path}/predictions/test.npz")
    return stored["logits"], stored["labels"]


def test_one_table_holds_all_methods_and_metrics(runs, capsys, tmp_path):
    files = [word for kind in ("latex", "csv", "html") for word in (f"--{kind}", f"out.{kind}")]
    found = compared(capsys, *runs.values(), "--metric", "all", *files)
    validate("compare", found)
    values = {name: rm.evaluate(*_test_scores(path), replicates=5) for name, path in runs.items()}
    assert found["metrics"] == [key for key, each in values["ce 0"].metrics.items() if each is not None]
    ce = [values[f"ce {seed}"].value("nll") for seed in range(3)]
    assert found["models"]["ce"]["nll"]["deviation"] == pytest.approx(statistics.stdev(ce))
    combined = (tmp_path / "out.latex").read_text().partition("\n\n")[0].splitlines()
    assert combined[0] == r"\begin{table}"
    assert combined[2] == r"\caption{200 test samples: means and standard deviations over seeds, the best in bold}"
    (row,) = [line.removesuffix(r" \\").split(" & ") for line in combined if line.startswith("NLL & ")]
    assert row[1:3] == [rf"{statistics.mean(ce):.4f} $\pm$ {statistics.stdev(ce):.4f}", row[2]]
    best = min(("ce", "mbls", "mixup, seed 1"), key=lambda name: found["models"][name]["nll"]["value"])
    assert [cell.startswith(r"\textbf{") for cell in row[1:]] == [name == best for name in ("ce", "mbls", "mixup, seed 1")]
    rows = {(row["model"], row["metric"]): row for row in csv.DictReader((tmp_path / "out.csv").read_text().splitlines())}
    told = rows["ce", "ece"]
    assert (told["name"], told["seeds"]) == ("ECE, %", "0 1 2")
    assert float(told["deviation"]) == found["models"]["ce"]["ece"]["deviation"]
    # Without a paired test over samples, and without seeds in common, there is no difference.
    assert rows["mixup, seed 1", "ks"]["difference"] == ""
    assert rows["mbls", "ks"]["test"] == "paired t over seeds"
    condition = "'mixup, seed 1'.ks - ce.ks > 1%"
    assert "whose difference has an interval, ks has none" in refused(capsys, *runs.values(), "--metric", "all", "--fail-if", condition)
    text = (tmp_path / "out.latex").read_text()
    assert all(rf"\caption{{{title}: differences from ce}}" in text for title in ("NLL", r"ECE, \%", r"KS error, \%"))
    assert "<strong>" in (tmp_path / "out.html").read_text()
