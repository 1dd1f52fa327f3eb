"""Runs on corrupted images: predictions that are kept and noticed when stale, published files, methods and seeds, the command."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import rankmixup as rm
from rankmixup.cli.main import main
from rankmixup.data import Digits, corrupt
from rankmixup.data.corruptions import Originals
from rankmixup.data.splits import shrunk
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import Scores, Shift
from rankmixup.runs import StoredRun
from rankmixup.runs.trained import trained_network
from rankmixup.training.shifted import ShiftSettings
from tests.oracles import unchecked

FEW = {"corruptions": ["contrast", "gaussian_noise"], "severities": [1, 5], "replicates": 50}


def trained(folder: Path, method="ce", **changes) -> StoredRun:
    optimisation = rm.Optimisation(epochs=2, batch_size=32, milestones=())
    return rm.train(rm.Run(method, data=Digits(train_size=100), model="mlp", optimisation=optimisation, **changes), runs=folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def stored(folder) -> StoredRun:
    return trained(folder)


def test_predictions_are_those_of_corrupted_images_and_a_file_of_scores(stored):
    rm.shift(stored, **FEW)
    test = stored.run.data.load().test
    low, high = test.x.min(), test.x.max()
    bytes_ = ((test.x - low) / (high - low) * 255).round().to(torch.uint8)
    x = corrupt(bytes_, "contrast", 5, index=test.index).float() / 255 * (high - low) + low
    with torch.no_grad():
        expected = trained_network(stored)(x)
    scores = Scores.read(stored.predictions_path("shift-contrast-5"))
    torch.testing.assert_close(scores.scores.float(), expected, rtol=1e-4, atol=1e-4)
    assert torch.equal(scores.labels, test.y)


@pytest.mark.slow
def test_nothing_is_predicted_twice_and_changes_are_noticed(stored, monkeypatch):
    rm.shift(stored, **FEW)
    path = stored.predictions_path("shift-gaussian_noise-5")
    before = path.stat().st_mtime_ns
    monkeypatch.setattr("rankmixup.training.shifted.trained_network", lambda run: pytest.fail("predicted again"))
    rm.shift(stored, **FEW)
    rm.shift(stored, **FEW, limit=10**6)  # which are all images
    assert path.stat().st_mtime_ns == before
    monkeypatch.undo()
    first = np.load(path)["logits"]
    rm.shift(stored, **FEW, seed=1)
    assert not np.array_equal(np.load(path)["logits"], first)
    limited = rm.shift(stored, **FEW, limit=30)
    assert len(np.load(path)["labels"]) == 30
    assert {each.n for each in limited.methods["ce"].severities} == {30}
    monkeypatch.setitem(rm.data.corruptions.base.CONSTANTS["gaussian_noise"], "32", [0.5] * 5)
    rm.shift(stored, **FEW)
    changed = np.load(path)["logits"]
    monkeypatch.undo()
    rm.shift(stored, **FEW)
    assert np.array_equal(np.load(path)["logits"], first)
    assert not np.array_equal(changed, first)


def test_an_interrupted_prediction_continues(stored, monkeypatch):
    for severity in (1, 5):
        stored.predictions_path(f"shift-contrast-{severity}").unlink(missing_ok=True)
    from rankmixup.training.predict import Predictor

    calls, whole = [], Predictor.predict

    def predict(self, split):
        calls.append(len(split))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(self, split)

    monkeypatch.setattr(Predictor, "predict", predict)
    with pytest.raises(KeyboardInterrupt):
        rm.shift(stored, corruptions=["contrast"], severities=[1, 5], replicates=10)
    assert stored.predictions_path("shift-contrast-1").exists()
    assert not stored.predictions_path("shift-contrast-5").exists()
    rm.shift(stored, corruptions=["contrast"], severities=[1, 5], replicates=10)
    assert len(calls) == 3


def test_predictions_of_another_run_are_refused(stored, folder):
    other = trained(folder, seed=9)
    rm.shift(stored, **FEW)
    other.predictions_path("shift-contrast-1").write_bytes(stored.predictions_path("shift-contrast-1").read_bytes())
    with pytest.raises(InvalidInput, match="must be of run"):
        rm.shift(other, **FEW)


def test_subsets_are_nested_and_always_the_same():
    small, large = (set(ShiftSettings(limit=limit).subset(100).tolist()) for limit in (10, 40))
    assert len(small) == 10
    assert small < large
    assert len(ShiftSettings(limit=200).subset(100)) == 100


def test_values_are_those_of_evaluate(stored):
    found = rm.shift(stored, **FEW)
    val, clean, noisy = (stored.scores(name) for name in ("val", "test", "shift-gaussian_noise-5"))
    reports = {}
    for name, scores in (("clean", clean), ("gaussian_noise", noisy)):
        reports[name] = rm.evaluate(scores.scores, scores.labels, calibrate_on=(val.scores, val.labels), replicates=50)
    cells = {cell.corruption: cell for cell in found.methods["ce"].cells if cell.severity in (0, 5)}
    for name, report in reports.items():
        for key in ("accuracy", "ece", "nll"):
            assert cells[name].before[key] == pytest.approx(report.value(key), abs=1e-6)
            assert cells[name].after[key] == pytest.approx(report.value(key, calibrated=True), abs=1e-6)
        assert cells[name].before["ece_floor"] == pytest.approx(report.metrics["ece"].floor.mean, rel=0.15)
    method = found.methods["ce"]
    both = [cell.before["ece"] for cell in method.cells if cell.severity == 5]
    assert method.at(5).before["ece"].value == pytest.approx(sum(both) / 2)
    for each in method.severities:
        for stage in (each.before, each.after):
            assert all(estimate.low <= estimate.value <= estimate.high for estimate in stage.values())


@pytest.mark.slow
def test_runs_of_several_seeds_are_one_method_and_methods_are_compared(folder):
    runs = [trained(folder, method, seed=seed) for method in ("ce", "label-smoothing") for seed in (0, 1, 2)]
    found = rm.shift(runs, **FEW, baseline="ce")
    assert {name: len(method.runs) for name, method in found.methods.items()} == {"ce": 3, "label-smoothing": 3}
    seeds = [[run.value(5, "before", "ece") for run in found.methods[name].runs] for name in ("label-smoothing", "ce")]
    differences = np.subtract(*seeds)
    difference = found.methods["label-smoothing"].difference(5, "before", "ece")
    assert difference.value == pytest.approx(differences.mean())
    from scipy.stats import ttest_1samp

    assert difference.p_value == pytest.approx(ttest_1samp(differences, 0).pvalue)
    assert difference.test == "paired t over seeds"
    assert difference.p_holm >= difference.p_value
    assert found.methods["ce"].differences == ()
    single = rm.shift([runs[0], runs[3]], **FEW)
    assert single.methods["label-smoothing"].difference(5, "after", "ece").test == "paired bootstrap"
    assert Shift.from_dict(json.loads(json.dumps(found.to_dict()))).to_dict() == found.to_dict()
    assert "label-smoothing" in str(found)


@pytest.fixture(scope="module")
def coloured(tmp_path_factory) -> StoredRun:
    """A network of images in files, too large for memory."""
    folder, rng = tmp_path_factory.mktemp("coloured"), np.random.default_rng(0)
    for label, name in enumerate(("red", "green", "blue")):
        (folder / "images" / name).mkdir(parents=True)
        for number in range(10):
            pixels = rng.integers(0, 60, (16, 16, 3), dtype=np.uint8)
            pixels[..., label] += 150
            Image.fromarray(pixels).save(folder / "images" / name / f"{number}.png")
    optimisation = rm.Optimisation(epochs=1, batch_size=8, milestones=())
    run = rm.Run("ce", data=f"folder:{folder / 'images'}", model="resnet8", optimisation=optimisation)
    return rm.train(run, runs=folder / "runs")


@pytest.mark.slow
def test_coloured_images_have_every_corruption_and_grey_ones_none_of_colours(coloured, stored):
    found = rm.shift(coloured, severities=[5], replicates=10)
    assert set(found.corruptions) == set(rm.list_corruptions())
    assert found.left_out == ()
    assert (found.images, found.image_size) == ("generated", 32)
    assert rm.shift(stored, corruptions=["digital"], severities=[1], replicates=10).left_out == ("saturate",)
    with pytest.raises(InvalidInput, match="must be such that grey images can have, got only saturate"):
        rm.shift(stored, corruptions=["saturate"])


def test_images_are_corrupted_before_they_are_shrunk():
    rng = torch.Generator().manual_seed(0)
    split = rm.data.Split(torch.randint(256, (4, 3, 32, 32), generator=rng, dtype=torch.uint8), torch.arange(4), torch.arange(4))
    originals = Originals.given(split, shrink=2)
    where = torch.tensor([1, 3])
    view = rm.data.View(16, (0.5,) * 3, (0.2,) * 3)
    images = originals.bytes_at(where, view)
    assert torch.equal(images, split.x[where])
    assert torch.equal(originals.as_split(images, where, view).x, shrunk(split[where], 2).x)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"corruptions": ["rain"]}, "unknown corruption 'rain'"),
        ({"corruptions": ["snow"]}, r"corruptions must be some that can be generated \(.*fog.*\), got 'snow'"),
        ({"corruptions": 3}, "corruptions must be names of corruptions, got 3"),
        ({"severities": 3}, "severities must be a list of whole numbers, got 3"),
        ({"severities": ["a", 1]}, "severities must be a whole number, got 'a'"),
        ({"labels": ["ce"]}, "labels must name methods by the id of a run, got"),
        ({"severities": [6]}, "severities must be at most 5, got 6"),
        ({"severities": []}, "severities must be at least one of 1 to 5, got none"),
        ({"images": "published"}, "no published files of it are in"),
        ({"limit": 0}, "limit must be at least 1, got 0"),
        ({"baseline": "mixup"}, "unknown baseline 'mixup'"),
        ({"replicates": 0}, "replicates must be at least 1"),
    ],
)
def test_wrong_requests_are_refused(stored, options, message):
    with unchecked(), pytest.raises(InvalidInput, match=message):
        rm.shift(stored, **options)


def test_the_same_run_twice_and_none_are_refused(stored):
    with pytest.raises(InvalidInput, match="runs must hold each run once"):
        rm.shift([stored, stored.path])
    with pytest.raises(InvalidInput, match="runs must hold at least one run"):
        rm.shift([])
    for wrong in (None, 3, [3]):
        with unchecked(), pytest.raises(InvalidInput, match=r"runs must be a run directory, .* or a list of these, got"):
            rm.shift(wrong)


def test_one_name_of_corruptions_needs_no_list(stored):
    assert rm.shift(stored, corruptions="contrast", severities=[5], replicates=10).corruptions == ("contrast",)


@pytest.mark.slow
def test_the_command_prints_and_writes_what_python_returns(stored, folder, tmp_path, capsys):
    other = trained(folder, "label-smoothing")
    asked = ["--corruptions", "contrast", "gaussian_noise", "--severities", "1", "5", "--replicates", "50"]
    files = {kind: tmp_path / f"shift.{kind}" for kind in ("csv", "md", "png")}
    written = ["--csv", str(files["csv"]), "--markdown", str(files["md"]), "--figure", str(files["png"])]
    assert main(["shift", str(stored.path), str(other.path), *asked, *written, "--json"]) == 0
    found = rm.shift([stored, other], **FEW)
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(found.to_dict()))
    head, _, *lines, _, reading = files["md"].read_text().splitlines()
    temperatures = [found.methods[name].runs[0].temperature for name in ("ce", "label-smoothing")]
    assert head.startswith("**ce, T = {:.3g}; label-smoothing, T = {:.3g}**: 1,297 images, 2 corruptions, generated".format(*temperatures))
    assert lines[0] == "| severity | method | accuracy, % | ECE, % | ECE after T, % | p (ECE, ce) |"
    assert len(lines) == 2 + 3 * 2
    before = found.methods["ce"].at(5).before["ece"]
    assert f" {100 * before.value:.2f} ({100 * before.low:.2f} to {100 * before.high:.2f}) " in lines[6]
    assert "95 % intervals over images" in reading
    for kind, path in files.items():
        saved = tmp_path / "python" / f"shift.{kind}"
        saved.parent.mkdir(exist_ok=True)
        assert found.save(saved) == saved
        assert kind == "png" or saved.read_text() == path.read_text()
    assert json.loads(found.save(tmp_path / "shift.json").read_text()) == json.loads(json.dumps(found.to_dict()))
    with pytest.raises(InvalidInput, match="must be in a folder that exists"):
        found.save(tmp_path / "missing" / "shift.png")
    rows = [line.split(",") for line in files["csv"].read_text().splitlines()]
    assert len(rows) == 1 + 2 * (3 * 2 * 3 + 2 * 2 * 2 * 3)
    assert rows[0][:6] == ["method", "severity", "corruption", "stage", "metric", "value"]
    ece = found.methods["ce"].at(5).before["ece"].value
    assert ["ce", "5", "mean", "before", "ece", repr(ece)] in [row[:6] for row in rows]
    assert files["png"].stat().st_size > 1000
    assert files["png"].with_suffix(".svg").exists()
    assert main(["shift", str(stored.path), str(other.path), *asked]) == 0
    shown = capsys.readouterr().out
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert sum(line.split()[:1] == ["label-smoothing"] for line in shown.splitlines()) == 3  # no name is broken
    assert "turn round" not in shown  # single runs have no seeds to compare
    assert main(["shift", str(stored.path), *asked]) == 0
    shown = capsys.readouterr().out
    assert "generated (constants for 32 pixels, seed 0)" in shown
    assert f"ce: T = {temperatures[0]:.3g}; 95 % intervals over images" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "…" not in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [([], "at least one run"), (["missing"], "must be a run directory"), (["a", "a"], "each run once, got a twice")],
)
def test_the_command_refuses_wrong_requests(arguments, message, capsys):
    assert main(["shift", *arguments]) == 2
    assert message in capsys.readouterr().err
