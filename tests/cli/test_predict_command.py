"""rankmixup predict, export, and evaluate --on."""

import csv
import io
import json
import shutil
import subprocess
import sys

import pytest

import rankmixup as rm
from rankmixup.cli.main import main
from rankmixup.evaluation.acceptance import Kept, Threshold
from tests.deploy.conftest import any_temperature, make_images, new_images, stored  # noqa: F401 - fixtures
from tests.test_schemas import validate


def test_predictions_are_written_for_each_image(stored, new_images, tmp_path, capsys):  # noqa: F811
    output = tmp_path / "predictions.csv"
    assert main(["predict", str(stored.path), str(new_images), "-o", str(output), "--top", "2"]) == 0
    rows = list(csv.DictReader(output.read_text().splitlines()))
    model = rm.load(stored)
    assert [row["label"] for row in rows] == model.predict(new_images)
    expected = model.predict_proba(new_images).topk(2, dim=1).values
    assert [float(row["confidence"]) for row in rows] == expected[:, 0].tolist()
    assert [float(row["probability_2"]) for row in rows] == expected[:, 1].tolist()
    assert rows[0]["name"] == "blue/0.png"
    image = new_images / "red" / "0.png"
    assert main(["predict", str(stored.path), str(image), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["predictions"]
    assert row["name"] == str(image)
    assert sum(each["probability"] for each in row["top"]) == pytest.approx(1)


def test_unreadable_images_are_named_and_left_out(stored, new_images, tmp_path, capsys):  # noqa: F811
    (new_images / "bad.png").write_text("no image")
    output = tmp_path / "predictions.json"
    assert main(["predict", str(stored.path), str(new_images), "-o", str(output)]) == 1
    found = json.loads(output.read_text())
    assert len(found["predictions"]) == 12
    assert list(found["unreadable"]) == ["bad.png"]
    validate("predict", found)
    assert "error: image bad.png cannot be read" in capsys.readouterr().err


def test_a_threshold_goes_with_the_predictions_and_the_export(stored, new_images, tmp_path, capsys):  # noqa: F811
    folder, output, asked = tmp_path / "model", tmp_path / "predictions.csv", ["--accept-at", "accuracy=95%"]
    assert main(["predict", str(stored.path), str(new_images), "-o", str(output), *asked]) == 0
    assert [row["accepted"] for row in csv.DictReader(output.read_text().splitlines())] == ["false"] * 12
    assert "nothing is accepted, 6 samples (val) show it at no confidence; it takes 72 without an error" in capsys.readouterr().err
    assert main(["export", str(stored.path), "-o", str(tmp_path / "none"), *asked]) == 0
    model = rm.load(stored, accept_at=0.95)
    assert rm.load(tmp_path / "none").threshold == model.threshold
    confidence = model.predict_proba(new_images).amax(dim=1)
    model.threshold = Threshold(0.95, confidence.sort().values[3:5].mean().item(), "val", Kept(200, 150, 149))
    expected = (confidence >= model.threshold.confidence).tolist()
    assert sum(expected) == 8
    model.export(folder)
    assert rm.load(folder).threshold == model.threshold
    assert "Accepted at accuracy 95 %: confidence of at least" in (folder / "README.md").read_text()
    capsys.readouterr()
    assert main(["predict", str(folder), str(new_images), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    validate("predict", found)
    assert [row["accepted"] for row in found["predictions"]] == expected
    assert found["acceptance"]["confidence"] == model.threshold.confidence
    assert main(["evaluate", str(folder), "--on", f"folder:{new_images}", "--replicates", "10", "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)["acceptance"]
    assert (checked["threshold"], checked["test"]["kept"]) == (model.threshold.confidence, 8)
    assert main(["predict", str(folder), str(new_images), *asked]) == 2
    assert "accept_at must be given when a folder is exported" in capsys.readouterr().err
    assert rm.load(folder, calibrate_with=None).threshold is None


def test_wrong_requests_write_nothing(stored, new_images, tmp_path, capsys):  # noqa: F811
    output = tmp_path / "predictions.csv"
    requests = {
        "there is none": [str(stored.path), str(tmp_path / "absent"), "-o", str(output)],
        "--top must be at least 1": [str(stored.path), str(new_images), "--top", "0", "-o", str(output)],
        "unknown calibrator": [str(stored.path), str(new_images), "--calibrate-with", "magic", "-o", str(output)],
        "--output must end in .csv or .json": [str(stored.path), str(new_images), "-o", str(tmp_path / "x.xlsx")],
        "in a folder that exists": [str(stored.path), str(new_images), "-o", str(tmp_path / "absent" / "x.csv")],
    }
    for message, arguments in requests.items():
        assert main(["predict", *arguments]) == 2
        assert message in capsys.readouterr().err
    assert not output.exists()


@pytest.mark.slow
def test_export_and_evaluate_on_new_data(stored, tmp_path, capsys):  # noqa: F811
    folder, data = tmp_path / "model", make_images(tmp_path / "data", 5, seed=3)
    assert main(["export", str(stored.path), "-o", str(folder), "--to", "safetensors", "pt2", "--json"]) == 0
    exported = json.loads(capsys.readouterr().out)
    assert set(exported["differences"]) == {"safetensors", "pt2"}
    found = []
    for source in (stored.path, folder):
        assert main(["evaluate", str(source), "--on", f"folder:{data}", "--replicates", "20", "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    of_run, of_folder = found
    assert of_run["n"] == 15
    assert of_run["metrics"] == of_folder["metrics"]
    assert of_run["calibration"]["metrics"] == of_folder["calibration"]["metrics"]
    for more, message in (
        ([], "--on must name data"),
        (["--on", f"folder:{data}", "--calibrate-with", "vector"], "must go with --calibrate-on"),
    ):
        assert main(["evaluate", str(folder), *more]) == 2
        assert message in capsys.readouterr().err
    assert of_run["metrics"]["accuracy"]["value"] == rm.load(stored).evaluate(f"folder:{data}", replicates=20).value("accuracy")


def test_evaluate_on_says_what_is_wrong(stored, tmp_path, capsys):  # noqa: F811
    data = make_images(tmp_path / "data", 2)
    (tmp_path / "scores.csv").write_text("label,prob_a,prob_b\n0,0.5,0.5\n")
    requests = {
        f"folder:{data}": [str(stored.path), "--on", str(data)],
        "--on must go with a run or an exported folder": [str(tmp_path / "scores.csv"), "--on", "digits"],
        "unknown data set": [str(stored.path), "--on", "nothing"],
    }
    for message, arguments in requests.items():
        assert main(["evaluate", *arguments]) == 2
        assert message in capsys.readouterr().err


def test_one_broken_link_leaves_the_others(stored, new_images, tmp_path, capsys):  # noqa: F811
    link, output = new_images / "gone.png", tmp_path / "predictions.json"
    link.symlink_to("nowhere")
    for images, count, name in (([new_images], 12, "gone.png"), ([*(new_images / "red").iterdir(), link], 4, str(link))):
        assert main(["predict", str(stored.path), *map(str, images), "-o", str(output)]) == 1
        found = json.loads(output.read_text())
        assert len(found["predictions"]) == count
        assert list(found["unreadable"]) == [name]
        assert "gone.png cannot be read" in capsys.readouterr().err


def test_names_are_those_of_the_files(stored, new_images, tmp_path, capsys):  # noqa: F811
    names = ["=1+1.png", "-a.png", " two  spaces .png", 'quo"te, comma.png', "line\nbreak.png", "größe.png"]
    for name in names:
        shutil.copyfile(new_images / "red" / "0.png", new_images / name)
    output = tmp_path / "predictions.csv"
    assert main(["predict", str(stored.path), str(new_images), "-o", str(output)]) == 0
    with output.open(newline="") as file:
        found = [row["name"] for row in csv.DictReader(file)]
    assert sorted(found) == sorted(str(path.relative_to(new_images)) for path in new_images.rglob("*.png"))
    assert main(["predict", str(stored.path), str(new_images)]) == 0
    assert [row["name"] for row in csv.DictReader(io.StringIO(capsys.readouterr().out, newline=""))] == found


def test_batches_and_workers_change_no_prediction(stored, new_images, tmp_path, capsys):  # noqa: F811
    found = []
    for more in ([], ["--batch-size", "5", "--workers", "1"]):
        assert main(["predict", str(stored.path), str(new_images), *more, "--json"]) == 0
        found.append([(row["name"], row["label"], row["confidence"]) for row in json.loads(capsys.readouterr().out)["predictions"]])
    assert [row[:2] for row in found[0]] == [row[:2] for row in found[1]]
    assert [row[2] for row in found[0]] == pytest.approx([row[2] for row in found[1]], abs=1e-6)
    for option in ("--batch-size", "--workers"):
        assert main(["predict", str(stored.path), str(new_images), option, "0"]) == 2
        assert f"{option} must be at least 1, got 0" in capsys.readouterr().err


def test_predicting_does_not_import_what_trains(stored, new_images):  # noqa: F811
    """It would take longer than to predict a thousand images."""
    code = f"""
import sys
from rankmixup.cli.main import main
status = main(["predict", {str(stored.path)!r}, {str(new_images)!r}])
sys.exit(status or [name for name in ("lightning_fabric", "matplotlib", "sklearn") if name in sys.modules] or 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr.startswith("warning: temperature calibration is not applied: on the 6 validation samples it ")
    assert done.stderr.count("\n") == 1


def test_evaluate_on_the_training_images_says_so_and_strict_refuses_it(stored, capsys):  # noqa: F811
    command = ["evaluate", str(stored.path), "--on", f"folder:{stored.run.data.path}", "--replicates", "10", "--json"]
    assert main(command) == 0
    found, said = capsys.readouterr()
    assert "warning: of 90 samples 66 are the run's training samples and 6 its validation samples: accuracy is " in said
    overlap = json.loads(found)["groups"]["overlap"]["before"]["groups"]
    assert {name: group["n"] for name, group in overlap.items()} == {"new": 18, "training": 66, "validation": 6}
    assert main([*command, "--strict"]) == 2
    assert "but of 90 samples 66 are the run's training samples" in capsys.readouterr().err
    assert main(["evaluate", str(stored.path), "--strict"]) == 2
    assert "--strict must go with --on, got none" in capsys.readouterr().err
