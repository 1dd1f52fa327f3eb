import json
import subprocess
import sys
import time

import numpy as np
import pytest

from rankmixup.cli.main import COMMANDS, main

LOGITS = np.array([[2.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 1.0, 0.5], [4.0, 0.0, 0.0]])
LABELS = np.array([0, 1, 2, 0])


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


@pytest.mark.parametrize("kind", ["methods", "mixers", "models", "data"])
def test_list(kind, capsys):
    assert main(["list", kind, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert set(listed) == {kind}
    assert all(set(entry) == {"name", "summary"} and entry["summary"] for entry in listed[kind])
    assert main(["list", kind]) == 0
    out = capsys.readouterr().out
    assert all(entry["name"] in out for entry in listed[kind])


def test_evaluate_json_follows_the_contract(scores, capsys):
    assert main(["evaluate", str(scores), "--calibrate-on", str(scores), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report) == {"schema", "source", "n", "num_classes", "metrics", "calibration", "ood", "failed"}
    assert (report["schema"], report["n"], report["num_classes"]) == (1, 4, 3)
    assert report["metrics"]["accuracy"]["value"] == 0.75
    assert set(report["metrics"]["ece"]) == {"value", "low", "high", "floor", "p_value", "verdict"}
    assert set(report["metrics"]["ece"]["floor"]) == {"mean", "low", "high"}
    assert report["metrics"]["aurc"] is None
    assert set(report["calibration"]) >= {"method", "objective", "parameters", "converged", "fitted_on", "metrics"}


def test_evaluate_shows_percent_to_people(scores, capsys):
    assert main(["evaluate", str(scores)]) == 0
    assert "75.00 %" in capsys.readouterr().out


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
    assert main(["evaluate", str(tmp_path / result["id"]), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["metrics"]["ece"]["value"] == pytest.approx(result["metrics"]["test"]["ece"], abs=1e-6)
    assert report["calibration"]["fitted_on"] == "val"


def test_a_mixers_own_defaults_come_with_it():
    from rankmixup.cli.train_command import _requested

    assert _requested(["rankmixup-mndcg"])[0].method.mixer.alpha == 2.0
    assert _requested(["rankmixup-mndcg", "--mixer", "mixup"])[0].method.mixer.alpha == 2.0
    assert _requested(["rankmixup-mndcg", "--mixer=manifold"])[0].method.mixer.to_dict() == {
        "name": "manifold",
        "alpha": 1.0,
        "lam_mode": "batch",
        "layer": "last",
        "layers": [],
        "forward": "shared",
    }
    # RegMixup forwards jointly whatever it mixes.
    assert _requested(["regmixup", "--mixer", "cutmix"])[0].method.mixer.forward == "joint"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "unknown command 'trian'; did you mean 'train'?"),
        (["train", "rankmixup-mlr"], "unknown method 'rankmixup-mlr'; did you mean 'rankmixup-mrl'"),
        (["train", "ce", "--model", "resnet9"], "unknown model 'resnet9'; did you mean"),
        (["train", "ce", "--data", "didgits"], "unknown data set 'didgits'; did you mean 'digits'?"),
        (["train", "mixup", "--mixer", "cutmx"], "unknown mixer 'cutmx'; did you mean 'cutmix'?"),
        (["train", "ce", "--mixer", "cutmix"], "--mixer must go with a method that mixes, which 'ce' does not"),
        (["train", "mixup", "--mixer"], "--mixer must be followed by a name"),
        (["train", "--seed", "1", "ce"], "METHOD must come first"),
        (["train", "rankmixup-mrl", "--margin", "-1"], "margin must be at least 0, got -1.0"),
        (["train", "rankmixup-mrl", "--weight", "-1"], "weight must be at least 0, got -1.0"),
        (["train", "rankmixup-mrl", "--weight", "nan"], "RankMixupMRL.weight must be finite, got nan"),
        (["train", "rankmixup-mndcg", "--num-mixes", "0"], "num_mixes must be at least 1, got 0"),
        (["train", "mixup", "--mixer.alpha", "0"], "alpha must be positive, got 0.0"),
        (["train", "ce", "--epochs", "0"], "epochs must be at least 1, got 0"),
        (["train", "ce", "--devices", "0"], "devices must be at least 1, got 0"),
        (["train", "--resume", "nowhere"], "nowhere must be a run directory, but it has no run.json"),
        (["evaluate", "nothing.npz"], "nothing.npz must be an npz file, there is no such file"),
        (["demo", "--seeds", "0"], "seeds must be at least 1, got 0"),
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
