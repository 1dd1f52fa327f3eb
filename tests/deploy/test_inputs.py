"""An image is prepared once, and every surface that predicts it gives the same logits."""

import csv
import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import rankmixup as rm
from rankmixup.cli.main import main
from rankmixup.config import content_hash
from rankmixup.data import Split, View, evaluation_batches
from rankmixup.data.base import ImageFiles
from rankmixup.data.corruptions import CONSTANTS, CORRUPTIONS, VERSION
from rankmixup.data.images import image_names
from rankmixup.data.own import Folder
from rankmixup.data.transforms import prepared, prepared_bytes
from rankmixup.deploy import CalibratedModel
from rankmixup.hardware import Hardware
from rankmixup.models import build_model

HERE = Hardware("cpu", workers=0)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture(scope="module", params=[72, 160, 224])
def of_photos(request, tmp_path_factory):
    """A run on photos that are not square, whose network sees every pixel, the border too."""
    folder, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for number in range(24):
        part, name = ("train", "val", "test")[number % 3], ("a", "b")[number // 3 % 2]
        (folder / "photos" / part / name).mkdir(parents=True, exist_ok=True)
        shape = (request.param + 40, request.param + 90) if number % 4 else (2 * request.param, request.param)
        Image.fromarray(rng.integers(0, 256, (*shape, 3), dtype=np.uint8)).save(folder / "photos" / part / name / f"{number}.png")
    data = Folder(path=str(folder / "photos"), image_size=request.param)
    run = rm.Run("ce", data=data, model="mlp", optimisation=rm.Optimisation(epochs=1, batch_size=4, lr=0.01, milestones=()))
    return rm.train(run, runs=folder / "runs", accelerator="cpu", workers=0)


@pytest.fixture(scope="module")
def photos(of_photos):
    """The test photos, in the order of the run's scores."""
    return of_photos.run.data.path + "/test"


def test_files_of_any_size_get_the_logits_that_the_run_stored(of_photos, photos, tmp_path):
    stored, model = of_photos.scores("test"), rm.load(of_photos, calibrate_with=None, device="cpu")
    paths = [f"{photos}/{name}" for name in image_names(Path(photos))]
    pictures = [Image.open(path).convert("RGB") for path in paths]
    logits = stored.logits.float()
    for x in (photos, paths, pictures, [np.asarray(picture) for picture in pictures]):
        torch.testing.assert_close(model.predict_logits(x), logits, atol=1e-5, rtol=1e-5)
    for picture, expected in zip(pictures, logits, strict=True):
        torch.testing.assert_close(model.predict_logits(np.asarray(picture))[0], expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model.network(model.preprocess(photos)), logits, atol=1e-5, rtol=1e-5)
    on = model.scores(Folder(path=of_photos.run.data.path))
    torch.testing.assert_close(on.logits.float(), logits, atol=1e-5, rtol=1e-5)
    assert main(["predict", str(of_photos.path), photos, "-o", str(tmp_path / "p.csv"), "--calibrate-with", "none"]) == 0
    rows = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    expected = stored.logits.double().softmax(dim=1)
    found = [[float(row["confidence" if row["label"] == name else "probability_2"]) for name in ("a", "b")] for row in rows]
    torch.testing.assert_close(torch.tensor(found, dtype=torch.float64), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:temperature calibration")  # of noise
def test_a_corruption_that_changes_nothing_gives_the_logits_that_the_run_stored(of_photos, monkeypatch):
    nothing = dataclasses.replace(CORRUPTIONS["brightness"], function=lambda x, constants, draws: x)
    monkeypatch.setitem(CORRUPTIONS._entries, "brightness", nothing)
    drawn = [VERSION, "brightness", 1, CONSTANTS["brightness"], 0, None]
    old = np.array(content_hash([of_photos.run.data.content_hash(), drawn]))  # as version 0.2 called what it cropped twice
    test = of_photos.read_predictions("test", "logits", "labels", "index")
    del test["run"]
    of_photos.write_predictions("shift-brightness-1", **{**test, "logits": test["logits"] + 1, "source": old})
    rm.shift(of_photos, corruptions=["brightness"], severities=[1], replicates=10, hardware=HERE)
    found, expected = of_photos.scores("shift-brightness-1"), of_photos.scores("test")
    torch.testing.assert_close(found.logits, expected.logits, atol=1e-5, rtol=1e-5)
    of_photos.predictions_path("shift-brightness-1").unlink()


def test_unknown_images_are_prepared_for_the_network_alone(stored_mlp, tmp_path):
    """Not first for the size of the first of them."""
    rng = np.random.default_rng(0)
    for number, shape in enumerate([(8, 8, 3), (30, 50, 3), (60, 40, 3)]):
        Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(tmp_path / f"{number}.png")
    split, _ = Folder(path=str(tmp_path), image_size=8).outside()
    model = rm.load(stored_mlp, device="cpu")
    torch.testing.assert_close(model.split_logits(split), model.predict_logits(tmp_path))


@pytest.mark.slow
def test_graphs_give_the_probabilities_of_the_stored_logits(of_photos, photos, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    model = rm.load(of_photos, calibrate_with=None, device="cpu")
    expected = of_photos.scores("test").logits.double().softmax(dim=1)
    exported, x = model.export(tmp_path / "model", ["onnx", "pt2"]), model.preprocess(photos).contiguous()
    session = onnxruntime.InferenceSession(exported.folder / "model.onnx", providers=["CPUExecutionProvider"])
    (onnx,) = session.run(["probabilities"], {"images": x.numpy()})
    for found in (torch.from_numpy(onnx), torch.export.load(exported.folder / "model.pt2").module()(x)):
        torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("augment", ["none", "resized-crop"])
@pytest.mark.parametrize("size", [24, 72])
@pytest.mark.parametrize("channels", [1, 3])
def test_an_array_and_the_file_that_it_is_saved_to_give_the_same_pixels(channels, size, augment, tmp_path):
    """Whatever its size and its colours, and however it comes."""
    rng = np.random.default_rng(0)
    view = View(size, MEAN[:channels], STD[:channels], augment)
    for number, shape in enumerate([(size, size), (size, size, 3), (90, 110), (110, 90, 3)]):
        array = rng.integers(0, 256, shape, dtype=np.uint8)
        Image.fromarray(array).save(tmp_path / f"{number}.png")
        images = torch.from_numpy(array).view(1, *shape[:2], -1).permute(0, 3, 1, 2)
        nowhere = {"y": torch.zeros(1, dtype=torch.long), "index": torch.zeros(1, dtype=torch.long)}
        (of_array,) = evaluation_batches(Split(images, **nowhere), view)
        (of_file,) = evaluation_batches(Split(ImageFiles(tmp_path, (f"{number}.png",)), **nowhere), view, workers=0)
        assert torch.equal(of_array, of_file)
        assert torch.equal(prepared_bytes(images, view)[0], prepared(Image.open(tmp_path / f"{number}.png").convert("RGB"), view))


def test_grey_pixels_keep_their_levels(tmp_path):
    levels = np.arange(256, dtype=np.uint8).reshape(16, 16)
    Image.fromarray(levels).save(tmp_path / "grey.png")
    view = View(16, (0.0,), (1.0,))
    assert np.array_equal(prepared(Image.open(tmp_path / "grey.png").convert("RGB"), view)[0].numpy(), levels)
    coloured = torch.from_numpy(levels).expand(1, 3, 16, 16)
    assert np.array_equal(prepared_bytes(coloured, view)[0, 0].numpy(), levels)


def assorted(folder: Path) -> list[Path]:
    """Photos of every kind that files have: turned, transparent, with a palette, grey, of 16 bits; none is square."""
    rng, folder = np.random.default_rng(1), folder / "assorted"
    folder.mkdir()
    pixels = np.kron(rng.integers(0, 256, (10, 14, 4), dtype=np.uint8), np.ones((25, 25, 1), dtype=np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6
    colour, wide = Image.fromarray(pixels[..., :3]), pixels[..., 0].astype(np.uint16) * 251
    colour.save(folder / "turned.jpg", exif=exif)
    colour.save(folder / "turned.tif", exif=exif)
    Image.fromarray(pixels).save(folder / "transparent.png")
    colour.quantize(16).save(folder / "palette.png", transparency=3)
    Image.fromarray(pixels[..., 0]).save(folder / "grey.png")
    Image.fromarray(wide).save(folder / "wide.png")
    return sorted(folder.iterdir())


def consumed(folder: Path, paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """What the program in the card of an exported folder prints the labels of."""
    (program,) = re.findall(r"```python\n(import json.*?)```", (folder / "README.md").read_text(), flags=re.DOTALL)
    assert len(program.splitlines()) <= 20
    assert "rankmixup" not in program
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(program.replace('["photo.jpg"]', repr([str(path) for path in paths])), names)  # as a reader would run it
    return names["probabilities"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:temperature calibration")  # of noise
def test_a_consumer_that_knows_the_card_alone_agrees(of_photos, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    paths, model = assorted(tmp_path), rm.load(of_photos, calibrate_with=None, device="cpu")
    folder = model.export(tmp_path / "model", ["onnx"]).folder
    assert np.abs(consumed(folder, paths, monkeypatch) - model.predict_proba(paths).numpy()).max() < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
def test_the_card_of_a_network_of_small_images_too(inside, channels, stored_mlp, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    paths, model = assorted(tmp_path), rm.load(stored_mlp, device="cpu")
    if channels == 1:
        view = dataclasses.replace(model.view, mean=(0.4,), std=(0.3,))
        network = build_model("mlp", num_classes=3, image_size=view.image_size, in_channels=1)
        origin = dataclasses.replace(model.origin, network="mlp")
        model = CalibratedModel(network, model.calibrator, model.class_names, view, origin)
    folder = model.export(tmp_path / "model", ["onnx"], normalise_inside=inside).folder
    found = consumed(folder, paths, monkeypatch)
    assert np.abs(found - model.predict_proba(paths).numpy()).max() < 1e-5
    config = json.loads((folder / "config.json").read_text())
    assert not {"augment", "padding", "flip"} & set(config["preprocessing"])
    assert rm.load(folder).view == model.view
