"""Any images under the network of a run: shown as its own are, kept, and flagged where their classes are known."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import rankmixup as rm
from rankmixup.cli.main import main
from rankmixup.data import parse_source
from rankmixup.errors import InvalidInput
from rankmixup.runs import StoredRun
from rankmixup.runs.checkpoint import load_best
from rankmixup.training.ood import predict_unknown

SIZE = 12


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> StoredRun:
    """A network of three classes of coloured squares."""
    folder = tmp_path_factory.mktemp("run")
    rng = np.random.default_rng(0)
    for label, name in enumerate(("red", "green", "blue")):
        (folder / "images" / name).mkdir(parents=True)
        for number in range(10):
            pixels = rng.integers(0, 60, (SIZE, SIZE, 3), dtype=np.uint8)
            pixels[..., label] += 150
            Image.fromarray(pixels).save(folder / "images" / name / f"{number}.png")
    optimisation = rm.Optimisation(epochs=2, batch_size=8, milestones=())
    run = rm.Run("ce", data=f"folder:{folder / 'images'}", model="resnet8", optimisation=optimisation)
    return rm.train(run, runs=folder / "runs")


@pytest.fixture
def unknown(tmp_path) -> Path:
    """Images of other sizes and kinds, in one folder for each class."""
    rng = np.random.default_rng(1)
    for name, shape in (("grey", (30, 40)), ("Green", (SIZE, SIZE, 3)), ("alpha", (50, 20, 4))):
        (tmp_path / "unknown" / name).mkdir(parents=True)
        Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(tmp_path / "unknown" / name / "image.png")
    return tmp_path / "unknown"


def test_images_are_resized_and_normalised_as_those_of_the_run(stored, tmp_path):
    from torchvision.transforms.v2 import functional as F

    x = np.random.default_rng(2).integers(0, 256, (5, 20, 20, 3), dtype=np.uint8)
    np.savez(tmp_path / "other.npz", x=x, y=np.arange(5) % 2)
    found = predict_unknown(stored, parse_source(f"npz:{tmp_path / 'other.npz'}"), "other")
    view = stored.run.data.load().view
    images = F.resize(torch.from_numpy(x).permute(0, 3, 1, 2), [SIZE, SIZE], antialias=True) / 255
    model = rm.build_model("resnet8", num_classes=3, image_size=SIZE).eval()
    model.load_state_dict(load_best(stored.checkpoints, stored.run.id))
    with torch.no_grad():
        expected = model(F.normalize(images, list(view.mean), list(view.std)))
    torch.testing.assert_close(found.scores.logits.float(), expected, atol=1e-4, rtol=1e-4)
    assert found.shared_classes == ()


def test_scores_are_kept_and_used_again_unless_the_images_have_changed(stored, unknown):
    source = f"folder:{unknown}"
    first = predict_unknown(stored, parse_source(source), "kept")
    assert len(first.scores) == 3
    assert first.shared_classes == ("green",)
    path = stored.predictions_path("ood-kept")
    before = path.stat().st_mtime_ns
    assert torch.equal(predict_unknown(stored, parse_source(source), "kept").scores.scores, first.scores.scores)
    assert path.stat().st_mtime_ns == before
    Image.new("RGB", (SIZE, SIZE)).save(unknown / "grey" / "another.png")
    assert len(predict_unknown(stored, parse_source(source), "kept").scores) == 4


def test_the_command_prints_auroc_with_its_interval_and_flags_known_classes(stored, unknown, capsys):
    arguments = [str(stored.path), "--ood", f"folder:{unknown}", "--replicates", "20"]
    assert main(["ood", *arguments]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "unknown: 3 OOD samples, detected by entropy" in out
    assert "AUROC" in out
    assert "Not all are OOD: the network was trained on classes of the same names: green." in out
    for command in ("ood", "evaluate"):
        assert main([command, *arguments, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["ood"]["unknown"]
        assert found["shared_classes"] == ["green"]
        assert found["metrics"]["auroc"]["low"] <= found["metrics"]["auroc"]["value"] <= found["metrics"]["auroc"]["high"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("svnh", "unknown data set 'svnh'; did you mean 'svhn'"),
        ("digits", "must have the shape that the network takes"),
        ("folder:nowhere", "nowhere must be a folder of images, there is none"),
        (".", "--ood must be a file of scores or a data set, but . is a folder; folder:. is a data set"),
        ("missing.npz", "missing.npz must be an npz file, or a pt, pth, safetensors or csv file, there is no such file"),
        ("a/b=digits", "the name of a data set must be one of a file, got 'a/b'"),
    ],
)
def test_what_is_no_set_of_images_is_refused(text, message, stored, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    kept = set((stored.path / "predictions").iterdir())
    assert main(["ood", str(stored.path), "--ood", text]) == 2
    assert message in capsys.readouterr().err
    assert set((stored.path / "predictions").iterdir()) == kept


def test_a_file_of_scores_has_no_network_to_show_images_to(stored, capsys):
    assert main(["ood", str(stored.predictions_path("test")), "--ood", "digits"]) == 2
    assert "--ood must be a file of scores unless a run is evaluated" in capsys.readouterr().err


def test_a_temperature_is_not_fitted_on_the_runs_test_scores(stored, capsys):
    test = str(stored.predictions_path("test"))
    assert main(["evaluate", str(stored.path), "--calibrate-on", test]) == 2
    assert "--calibrate-on must not be the run's own test scores" in capsys.readouterr().err


def test_a_run_that_is_not_finished_is_refused(tmp_path):
    unfinished = StoredRun.locate(tmp_path, rm.Run("ce"))
    unfinished.create()
    with pytest.raises(InvalidInput, match="must be finished"):
        predict_unknown(unfinished, parse_source("digits"), "digits")


@pytest.mark.data
@pytest.mark.skipif("RANKMIXUP_DATA" not in os.environ, reason="RANKMIXUP_DATA names no folder of data")
def test_the_real_cifar10_trains_and_is_told_from_cifar100(tmp_path, capsys):
    assert main(["train", "ce", "--data", "cifar10", "--model", "resnet8", "--epochs", "2", "--runs", str(tmp_path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["metrics"]["test"]["accuracy"] > 0.5
    run = tmp_path / result["id"]
    splits = json.loads((run / "splits.json").read_text())
    assert [splits[name]["size"] for name in ("train", "val", "test")] == [45_000, 5_000, 10_000]
    assert splits["shared_images"] == {"train-val": [], "train-test": [], "val-test": []}
    folder = Path(os.environ["RANKMIXUP_DATA"]) / "cifar100-ood-2000"
    assert main(["ood", str(run), "--ood", f"folder:{folder}", "--replicates", "200", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["ood"]["cifar100-ood-2000"]
    auroc = found["metrics"]["auroc"]
    assert found["n"] == 2000
    assert 0.5 < auroc["low"] < auroc["value"] < auroc["high"] < 0.9
