import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from rankmixup.cli.main import COMMANDS, main
from rankmixup.experiments import DEMO_METHODS

LOGITS = np.array([[2.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 1.0, 0.5], [4.0, 0.0, 0.0]])
LABELS = np.array([0, 1, 2, 0])
FEW = ["--replicates", "20"]


@pytest.fixture
def scores(tmp_path):
    np.savez(tmp_path / "test.npz", logits=LOGITS, labels=LABELS)
    return tmp_path / "test.npz"


def fails(capsys, *arguments: str) -> str:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_help_lists_every_command(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {name}" in out for name in COMMANDS)


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in COMMANDS)])
def test_help_answers_without_torch(arguments):
    code = (
        "import sys\nfrom rankmixup.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\nfinally:\n    assert 'torch' not in sys.modules, 'torch was imported'"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout


def test_help_and_pages_name_what_the_demo_trains(capsys):
    with pytest.raises(SystemExit):
        main(["demo", "--help"])
    text, number = (
        " ".join(capsys.readouterr().out.replace("│", "").split()),
        ("no", "one", "two", "three", "four", "five", "six")[len(DEMO_METHODS)],
    )
    assert all(name in text for name in DEMO_METHODS.values())
    page = Path("docs/start/get-started.md").read_text()
    for said in (text, COMMANDS["demo"], page.partition("## 2. The demo")[2]):
        assert f"rain {number} methods" in said.replace("trains", "train")
    assert all(f"\n{name} " in page for name in DEMO_METHODS.values())


def test_evaluating_a_file_imports_no_slow_library_that_it_does_not_need(scores):
    slow = ["lightning_fabric", "torchmetrics", "torchvision", "matplotlib", "sklearn", "scipy", "pandas", "jinja2"]
    own = [f"rankmixup.{name}" for name in ("data", "methods", "models", "runs", "training", "experiments", "paper")]
    code = (
        "import sys\nfrom rankmixup.cli.main import main\n"
        f"main(sys.argv[1:])\nprint([name for name in {slow + own} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, "evaluate", str(scores), *FEW], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "[]\n")


@pytest.mark.parametrize("kind", ["methods", "mixers", "models", "data", "metrics", "calibrators", "experiments"])
def test_list(kind, capsys):
    assert main(["list", kind, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert set(listed) == {kind}
    assert all(set(entry) == {"name", "summary"} and entry["summary"] for entry in listed[kind])
    assert main(["list", kind]) == 0
    out = capsys.readouterr().out
    assert all(entry["name"] in out for entry in listed[kind])


def test_evaluate_json_follows_the_contract(scores, capsys):
    assert main(["evaluate", str(scores), "--calibrate-on", str(scores), *FEW, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report) == {"schema", "source", "n", "num_classes", "metrics", "calibration", "classes", "groups", "ood", "failed"}
    assert (report["schema"], report["n"], report["num_classes"]) == (1, 4, 3)
    assert report["metrics"]["accuracy"]["value"] == 0.75
    assert set(report["metrics"]["ece"]) == {"value", "low", "high", "floor", "p_value", "verdict"}
    assert set(report["metrics"]["ece"]["floor"]) == {"mean", "low", "high"}
    assert report["metrics"]["top5_accuracy"] is None  # of three classes
    assert set(report["calibration"]) >= {"method", "objective", "parameters", "converged", "fitted_on", "metrics"}
    assert report["calibration"]["same_data"] is True
    assert report["failed"] == []


def test_evaluate_shows_percent_to_people(scores, capsys):
    assert main(["evaluate", str(scores), *FEW]) == 0
    out = capsys.readouterr().out
    assert "75.00 %" in out
    assert "noise floor" in out
    assert max(map(len, out.splitlines())) <= 80


def evaluated(capsys, *arguments: str, status: int = 0) -> dict:
    assert main(["evaluate", *arguments, *FEW, "--json"]) == status
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", ["temperature", "vector", "ensemble-temperature", "isotonic", "histogram"])
def test_evaluate_calibrates_with(name, test_and_val, capsys):
    test, val = test_and_val
    calibration = evaluated(capsys, str(test), "--calibrate-on", str(val), "--calibrate-with", name)["calibration"]
    assert (calibration["method"], calibration["fitted_on"], calibration["same_data"]) == (name, "val.npz", False)
    assert calibration["metrics"]["ece"]["low"] is not None


@pytest.mark.parametrize(("name", "objective"), [("histogram", "bin accuracy"), ("temperature", "ece-grid")])
def test_the_number_of_bins_reaches_the_calibrator(name, objective, test_and_val, capsys):
    test, val = map(str, test_and_val)
    flags = ["--calibrate-on", val, "--calibrate-with", name, "--objective", objective, "--num-bins"]
    few, many = (evaluated(capsys, test, *flags, bins)["calibration"]["parameters"] for bins in ("2", "50"))
    assert few != many
    if name == "histogram":
        assert len(few["values"]) == 2


def test_a_fit_that_does_not_converge_is_said_on_standard_error(scores, tmp_path, capsys):
    np.savez(tmp_path / "right.npz", logits=LOGITS[:2], labels=LABELS[:2])  # all right: the colder the better
    assert main(["evaluate", str(scores), "--calibrate-on", str(tmp_path / "right.npz"), *FEW, "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["calibration"]["converged"] is False
    assert captured.err.startswith("warning: ")
    assert "did not converge" in captured.err
    assert captured.err.count("\n") == 1


def test_fail_if(scores, tmp_path, capsys):
    conditions = ["accuracy<0.9", "accuracy<0.5", "nll>0:low"]
    flags = [argument for condition in conditions for argument in ("--fail-if", condition)]
    report = evaluated(capsys, str(scores), *flags, "--csv", str(tmp_path / "out.csv"), status=1)
    assert report["failed"] == ["accuracy<0.9", "nll>0:low"]
    assert (tmp_path / "out.csv").exists()
    assert evaluated(capsys, str(scores), "--fail-if", "accuracy<0.5")["failed"] == []
    assert main(["evaluate", str(scores), "--fail-if", "accuracy<0.9", *FEW]) == 1
    assert "failed: accuracy<0.9" in capsys.readouterr().out
    calibrated = ["--calibrate-on", str(scores), "--ood", f"same={scores}", "--fail-if", "calibrated.accuracy<76%", "--fail-if"]
    report = evaluated(capsys, str(scores), *calibrated, "ood.same.auroc<0.6", status=1)
    assert report["failed"] == ["calibrated.accuracy<76%", "ood.same.auroc<0.6"]


def test_evaluate_writes_every_kind_of_report(test_and_val, tmp_path, capsys):
    test, val = test_and_val
    paths = {kind: tmp_path / f"out.{kind}" for kind in ("html", "latex", "csv")}
    flags = [argument for kind, path in paths.items() for argument in (f"--{kind}", str(path))]
    report = evaluated(capsys, str(test), "--calibrate-on", str(val), *flags)
    assert paths["html"].read_text().lower().startswith("<!doctype html>")
    assert "\\toprule" in paths["latex"].read_text()
    lines = [line.split(",") for line in paths["csv"].read_text().splitlines()]
    column = {name: index for index, name in enumerate(lines[0])}
    found = {(line[column["stage"]], line[column["metric"]]): float(line[column["value"]]) for line in lines[1:]}
    assert found["before", "ece"] == report["metrics"]["ece"]["value"]
    assert found["after temperature", "ece"] == report["calibration"]["metrics"]["ece"]["value"]


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_formats_give_the_same_numbers(kind, scores, tmp_path, capsys):
    import torch
    from safetensors.numpy import save_file

    array = LOGITS if kind == "logits" else torch.tensor(LOGITS).softmax(1).numpy()
    torch.save({kind: torch.from_numpy(array), "labels": torch.from_numpy(LABELS)}, tmp_path / "named.pt")
    save_file({kind: array, "labels": LABELS}, tmp_path / "named.safetensors")
    rows = [",".join([*(repr(float(value)) for value in row), str(label)]) for row, label in zip(array, LABELS, strict=True)]
    (tmp_path / "bare.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "headed.csv").write_text("\n".join(["cat,dog,bird,label", *rows]) + "\n")
    expected = evaluated(capsys, str(scores))["metrics"]
    for name, flags in {
        "named.pt": [],
        "named.safetensors": [],
        "bare.csv": ["--from", kind],
        "headed.csv": ["--from", kind],
    }.items():
        found = evaluated(capsys, str(tmp_path / name), *flags)["metrics"]
        for key in ("accuracy", "nll", "ece"):
            assert found[key]["value"] == pytest.approx(expected[key]["value"], abs=1e-12), (name, key)
    assert "--from" in fails(capsys, "evaluate", str(tmp_path / "bare.csv"))
    other = {"logits": "probs", "probs": "logits"}[kind]
    assert kind in fails(capsys, "evaluate", str(tmp_path / "named.pt"), "--from", other)


def test_every_command_takes_the_columns_of_a_csv_file(tmp_path, capsys):
    """The same table with a class called `id`, row weights, and labels that no name gives away."""
    rows = "\n".join(f"1,{row[0]},{row[1]},{row[2]},{label}" for row, label in zip(LOGITS, LABELS, strict=True))
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(f"weight,id,dog,cat,answer\n{rows}\n")
    a, b = str(tmp_path / "a.csv"), str(tmp_path / "b.csv")
    flags = ["--from", "logits", "--label-column", "answer", "--columns", "id", "dog", "cat", *FEW, "--json"]
    report = evaluated(capsys, a, "--calibrate-on", b, "--ood", f"other={b}", *flags[:-3])
    assert (report["num_classes"], report["metrics"]["accuracy"]["value"]) == (3, 0.75)
    assert report["calibration"]["same_data"] is True
    assert report["ood"]["other"]["metrics"]["auroc"]["value"] == 0.5
    assert main(["compare", a, b, *flags]) == 0
    assert main(["ood", a, "--ood", b, *flags]) == 0
    assert main(["report", a, b, "-o", str(tmp_path / "a.html"), *flags[:-1]]) == 0
    capsys.readouterr()
    assert "label_column (--label-column)" in fails(capsys, "evaluate", a, "--from", "logits")


@pytest.fixture
def test_and_val(tmp_path):
    """Two halves of an overconfident model's scores."""
    draw = np.random.default_rng(0)
    logits = draw.normal(size=(400, 6)) * 1.5
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = (probs.cumsum(1) < draw.random((400, 1))).sum(1).clip(max=5)
    paths = tmp_path / "test.npz", tmp_path / "val.npz"
    for path, half in zip(paths, (slice(0, 200), slice(200, 400)), strict=True):
        np.savez(path, logits=3 * logits[half], labels=labels[half])
    return paths


def test_ood_files_need_no_labels(test_and_val, tmp_path, capsys):
    test, val = test_and_val
    np.savez(tmp_path / "noise.npz", logits=np.zeros((30, 6)))
    arguments = ["--ood", str(tmp_path / "noise.npz"), f"same={val}", *FEW, "--json"]
    assert main(["ood", str(test), *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["n"], list(found["ood"])) == (200, ["noise", "same"])
    assert found["ood"]["noise"]["metrics"]["auroc"]["value"] == 1.0
    same = found["ood"]["same"]["metrics"]["auroc"]
    assert same["low"] < 0.5 < same["high"]  # the same distribution
    assert main(["evaluate", str(test), "--score", "energy", *arguments]) == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report["ood"]["noise"]) == {"n", "score", "metrics"}
    assert report["ood"]["noise"]["score"] == "energy"
    assert main(["ood", str(test), *arguments[:-1]]) == 0
    assert "AUROC" in capsys.readouterr().out


def test_compare(test_and_val, tmp_path, capsys):
    test, _ = test_and_val
    arrays = np.load(test)
    np.savez(tmp_path / "cooler.npz", logits=arrays["logits"] / 3, labels=arrays["labels"])
    paths = [str(test), str(tmp_path / "cooler.npz")]
    assert main(["compare", *paths, "--replicates", "200", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["baseline"] == paths[0]
    assert found["models"][paths[1]]["ece"]["difference"]["verdict"] == "better"
    assert found["models"][paths[1]]["accuracy"]["difference"]["p_value"] == 1.0
    assert main(["compare", paths[0], "--baseline", paths[1], "--metric", "nll", "--replicates", "200"]) == 0
    out = capsys.readouterr().out
    assert "worse" in out
    assert "McNemar" in out


def test_compare_refuses_other_labels(test_and_val, tmp_path, capsys):
    test, val = test_and_val
    assert "must have the same labels in the same order" in fails(capsys, "compare", str(test), str(val))
    np.savez(tmp_path / "short.npz", logits=np.eye(6) * 2, labels=np.arange(6))
    assert "must be scores of the same samples, got 6 and 200" in fails(capsys, "compare", str(test), str(tmp_path / "short.npz"))


def test_report_is_one_page_about_all(test_and_val, tmp_path, capsys):
    test, val = map(str, test_and_val)
    page = tmp_path / "page.html"
    assert main(["report", test, val, "--calibrate-on", val, test, "-o", str(page), *FEW]) == 0
    assert str(page) in capsys.readouterr().out.replace("\n", "")
    text = page.read_text()
    assert "test.npz" in text
    assert "val.npz" in text


def probabilities(**changes):
    return {"probs": np.array([[0.75, 0.25], [0.5, 0.5]]), "labels": np.array([0, 1]), **changes}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"logits": np.array([[np.nan, 0.0]]), "labels": np.array([0])}, "logits must be finite, row 0 is not"),
        ({"logits": np.array([[np.inf, 0.0]]), "labels": np.array([0])}, "logits must be finite, row 0 is not"),
        ({"logits": np.zeros((0, 3)), "labels": np.zeros(0, int)}, "at least one sample"),
        ({"logits": np.ones(3), "labels": np.array([0])}, "labels must hold one class index for each of 3 samples, got shape [1]"),
        (probabilities(labels=np.array([[1, 0], [0, 1]])), "labels must hold one class index for each of 2 samples, got one-hot rows"),
        (probabilities(labels=np.array([0.0, 0.5])), "labels must"),
        (probabilities(labels=np.array([0, 2])), "labels must lie in 0..1, got 2"),
        (probabilities(labels=np.array([0, 1, 1])), "labels must hold one class index for each of 2 samples, got shape [3]"),
        (probabilities(probs=np.array([[1.25, -0.25], [0.5, 0.5]])), "probs must not be negative"),
        (probabilities(probs=np.array([[0.75, 0.75], [0.5, 0.5]])), "probs must sum to 1 in every row"),
        (probabilities(labels=np.array([0, None])), "pickle"),
        ({"labels": np.array([0])}, "'logits' or 'probs'"),
        ({"logits": np.array([[1.0, 0.0]])}, "labels"),
    ],
)
def test_bad_scores_get_one_sentence_status_2_and_no_report(arrays, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez("bad.npz", **arrays)
    for arguments in (["evaluate", "bad.npz", "--html", "a.html", "--csv", "a.csv"], ["report", "bad.npz", "-o", "a.html"]):
        assert message in fails(capsys, *arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.npz"]


def test_options_that_would_do_nothing_are_refused(scores, tmp_path, capsys):
    for flags in (["--calibrate-with", "histogram"], ["--objective", "ece-grid"]):
        assert "must go with --calibrate-on" in fails(capsys, "evaluate", str(scores), *flags)
    assert "must go with --calibrate-on" in fails(
        capsys, "report", str(scores), "--calibrate-with", "vector", "-o", str(tmp_path / "a.html")
    )


def test_a_calibrator_or_objective_that_does_not_exist_is_refused(test_and_val, capsys):
    test, val = map(str, test_and_val)
    said = fails(capsys, "evaluate", test, "--calibrate-on", val, "--calibrate-with", "temprature")
    assert "unknown calibrator 'temprature'; did you mean 'temperature'" in said
    said = fails(capsys, "evaluate", test, "--calibrate-on", val, "--calibrate-with", "vector", "--objective", "ece-grid")
    assert "objective of VectorScaling must be 'nll', got 'ece-grid'" in said


def test_a_truncated_file_is_refused(scores, capsys):
    scores.write_bytes(scores.read_bytes()[:-40])
    assert "cut short" in fails(capsys, "evaluate", str(scores))


@pytest.mark.parametrize(
    "arrays",
    [
        {"logits": np.array([[3.0, 1.0]]), "labels": np.array([1])},
        {"logits": np.array([[3.0, 1.0], [0.0, 1.0]]), "labels": np.array([0, 1])},
        {"logits": np.array([[3.0, 1.0], [0.0, 1.0]]), "labels": np.array([1, 0])},
        {"probs": np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), "labels": np.array([0, 1, 1])},
        {"logits": np.zeros((6, 3)), "labels": np.array([0, 1, 2, 0, 1, 2])},
        {"logits": np.array([[9.0, 1.0], [0.0, 1.0]], dtype=np.float16), "labels": np.array([0, 0], dtype=np.uint8)},
    ],
    ids=["one sample", "all right", "all wrong", "exactly 0 and 1", "ties", "float16"],
)
def test_odd_scores_get_right_numbers(arrays, tmp_path, capsys):
    np.savez(tmp_path / "odd.npz", **arrays)
    page = tmp_path / "page.html"
    report = evaluated(capsys, str(tmp_path / "odd.npz"), "--calibrate-on", str(tmp_path / "odd.npz"), "--html", str(page))
    scores = next(iter(arrays.values()))
    assert report["metrics"]["accuracy"]["value"] == (scores.argmax(1) == arrays["labels"]).mean()
    assert 0 <= report["metrics"]["ece"]["value"] <= 1
    assert page.exists()


@pytest.mark.data
@pytest.mark.parametrize(
    ("network", "expected"),
    [
        ("resnet110", {"ece": 0.0475035083, "mce": 0.2957991822, "nll": 0.3582741489}),
        ("resnet50", {"ece": 0.0435432540, "nll": 0.4121202855}),
    ],
)
def test_evaluate_on_published_logits(network, expected, capsys):
    if "RANKMIXUP_DATA" not in os.environ:
        pytest.skip("RANKMIXUP_DATA names no folder of data")
    test, val = (Path(os.environ["RANKMIXUP_DATA"]) / "logits" / f"{network}_cifar10_{split}.npz" for split in ("test", "val"))
    assert main(["evaluate", str(test), "--calibrate-on", str(val), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    for key, value in expected.items():
        assert report["metrics"][key]["value"] == pytest.approx(value, abs=1e-7)
    assert report["metrics"]["ece"]["verdict"] == "miscalibrated"
    if network == "resnet110":
        assert report["calibration"]["parameters"]["temperature"] == pytest.approx(2.39501, abs=1e-5)
        assert report["calibration"]["metrics"]["ece"]["value"] == pytest.approx(0.011321, abs=1e-6)


def test_train_evaluate_and_resume(tmp_path, capsys):
    arguments = ["--model", "mlp", "--epochs", "1", "--data.train-size", "50", "--runs", str(tmp_path), "--json"]
    assert main(["train", "rankmixup-mrl", "--margin", "1", "--mixer", "cutmix", "--mixer.alpha", "0.5", *arguments]) == 0
    result = json.loads(capsys.readouterr().out)
    described = json.loads((tmp_path / result["id"] / "run.json").read_text())
    assert described["method"]["margin"] == 1.0
    assert described["method"]["mixer"]["name"] == "cutmix"
    assert described["method"]["mixer"]["alpha"] == 0.5
    assert described["data"]["train_size"] == 50
    assert described["optimisation"]["epochs"] == 1
    assert described["optimisation"]["batch_size"] == 64
    assert main(["train", "--resume", str(tmp_path / result["id"]), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == result
    again = ["train", "--resume", str(tmp_path / result["id"])]
    assert main([*again, "--margin", "1", "--mixer", "cutmix", "--data.train-size=50", "--devices", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == result
    told = fails(capsys, *again, "--lr", "0.05", "--margin", "2", "--seed", "3")
    assert "cannot change: method.margin 1.0 -> 2.0, optimisation.lr 0.1 -> 0.05, seed 0 -> 3" in told
    assert main([*again, "--show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == result["id"]
    assert "runs must be left out with --resume, got elsewhere" in fails(capsys, *again, "--runs", "elsewhere")
    assert main(["evaluate", str(tmp_path / result["id"]), *FEW, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["metrics"]["ece"]["value"] == pytest.approx(result["metrics"]["test"]["ece"], abs=1e-6)
    assert report["calibration"]["fitted_on"] == "val"


def test_a_mixers_own_defaults_come_with_it():
    from rankmixup.cli.train_command import requested_run

    assert requested_run(["rankmixup-mndcg"])[0].method.mixer.alpha == 2.0
    assert requested_run(["rankmixup-mndcg", "--mixer", "mixup"])[0].method.mixer.alpha == 2.0
    assert requested_run(["rankmixup-mndcg", "--mixer=manifold"])[0].method.mixer.to_dict() == {
        "name": "manifold",
        "alpha": 1.0,
        "lam_mode": "batch",
        "layer": "last",
        "layers": [],
        "forward": "shared",
    }
    # RegMixup forwards jointly whatever it mixes.
    assert requested_run(["regmixup", "--mixer", "cutmix"])[0].method.mixer.forward == "joint"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "unknown command 'trian'; did you mean 'train'?"),
        (["train", "rankmixup-mlr"], "unknown method 'rankmixup-mlr'; did you mean 'rankmixup-mrl'"),
        (["train", "ce", "--model", "resnet9"], "unknown model 'resnet9'; did you mean"),
        (["train", "ce", "--data", "didgits"], "unknown data set 'didgits'; did you mean 'digits'?"),
        (["train", "mixup", "--mixer", "cutmx"], "unknown mixer 'cutmx'; did you mean 'cutmix'?"),
        (["train", "ce", "--mixer", "cutmix"], "--mixer must go with a method that mixes, which 'ce' does not"),
        (["train", "mixup", "--mixer"], "--mixer must be followed by a value"),
        (["train", "--seed", "1", "ce"], "METHOD must come first"),
        (["train", "rankmixup-mrl", "--margin", "-1"], "margin must be at least 0, got -1.0"),
        (["train", "rankmixup-mrl", "--weight", "-1"], "weight must be at least 0, got -1.0"),
        (["train", "rankmixup-mrl", "--weight", "nan"], "RankMixupMRL.weight must be finite, got nan"),
        (["train", "rankmixup-mndcg", "--num-mixes", "0"], "num_mixes must be at least 1, got 0"),
        (["train", "mixup", "--mixer.alpha", "0"], "alpha must be positive, got 0.0"),
        (["train", "ce", "--epochs", "0"], "epochs must be at least 1, got 0"),
        (["train", "ce", "--devices", "0"], "devices must be at least 1, got 0"),
        (["train", "--resume", "nowhere"], "nowhere must be a run directory, but it has no run.json"),
        (["evaluate", "nothing.npz"], "there is no such file"),
        (["demo", "--seeds", "0"], "seeds must be at least 1, got 0"),
        (["evaluate", "a.npz", "--fail-if", "ece=1"], "a condition must be METRIC, < or >, a number"),
        (["evaluate", "a.npz", "--fail-if", "aecee>1"], "unknown metric 'aecee'; did you mean 'aece' or 'ece'"),
        (["evaluate", "a.npz", "--html", "no/a.html"], "no/a.html must be in a folder that exists, no does not"),
        (["evaluate", "a.npz", "--fail-if", "ece>3"], "must compare ece with a number that it can pass, it lies in 0..1; 3 percent is 3%"),
        (["evaluate", "a.npz", "--num-bins", "0"], "--num-bins must be at least 1, got 0"),
        (["evaluate", "a.npz", "--num-bins", "-3"], "--num-bins must be at least 1, got -3"),
        (["compare", "a.npz", "b.npz", "--num-bins", str(10**20)], f"--num-bins must be at most 1000, got {10**20}"),
        (["report", "a.npz", "--num-bins", "2.5"], "--num-bins"),
        (["evaluate", "a.npz", "--replicates", "0"], "--replicates must be at least 1, got 0"),
        (["evaluate", "a.npz", "--calibrate-with", "temperatur"], "unknown calibrator 'temperatur'; did you mean 'temperature'"),
        (["evaluate", "a.npz", "--score", "energy"], "--score, --data-root and --download must go with --ood, got none"),
        (["ood", "a.npz", "--replicates", str(10**20)], f"--replicates must be at most 1000000, got {10**20}"),
        (["evaluate", "a.npz", "--label-column", "y"], "--label-column and --columns must go with a csv file, got none"),
        (["ood", "a.npz", "--ood", "b.npz", "--columns", "y"], "--label-column and --columns must go with a csv file, got none"),
        (["compare", "a.npz"], "compare must be given at least two runs or files, got 1"),
        (["compare", "a.npz", "a.npz"], "compare must be given each run or file once, got a.npz twice"),
        (["compare", "a.npz", "b.npz", "--metric", "eec"], "unknown metric 'eec'; did you mean 'ece'"),
        (["ood", "a.npz"], "--ood must name at least one data set or file of scores, got none"),
        (["report", "a.npz", "--calibrate-on", "b.npz", "c.npz"], "--calibrate-on must give one file for each of 1 sources, got 2"),
        (["report", "nothing.npz", "-o", "a.html"], "there is no such file"),
    ],
)
def test_wrong_requests_get_one_sentence_status_2_and_change_nothing(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert message in fails(capsys, *arguments)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_layer_is_found_before_anything_is_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    message = fails(capsys, "train", "mixup", "--mixer", "manifold", "--mixer.layer", "stage4")
    assert "unknown layer of SmallResNet 'stage4'; did you mean 'stage" in message
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_where_an_error_came_from():
    from rankmixup.errors import InvalidInput

    with pytest.raises(InvalidInput):
        main(["trian", "--debug"])


@pytest.mark.slow
def test_startup_times():
    """Medians of interleaved repeats: importing the library costs what importing torch costs."""
    codes = {"torch": "import torch", "rankmixup": "import rankmixup", "functional": "import rankmixup.functional, rankmixup.methods"}
    seconds: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(5):
        for name, code in codes.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            seconds[name].append(time.perf_counter() - began)
    median = {name: sorted(values)[2] for name, values in seconds.items()}
    assert median["rankmixup"] <= 1.1 * median["torch"]
    assert median["functional"] <= 1.2 * median["torch"]
