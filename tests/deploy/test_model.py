"""The handle predicts what the run has stored, from images of any kind."""

import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, TensorDataset

import rankmixup as rm
from rankmixup.data import Folder
from rankmixup.errors import InvalidInput
from tests.deploy.conftest import COLOURS, SIZE, make_images
from tests.oracles import unchecked


@pytest.fixture(scope="module")
def model(stored):
    return rm.load(stored.path)


def test_probabilities_are_those_that_the_run_has_stored(stored, model):
    """Bit for bit in the same batches; to 1e-6 in others."""
    test = stored.run.data.load().test
    expected = model.calibrator.predict_proba(stored.scores("test").logits)
    assert torch.equal(model.predict_proba(test.x), expected)
    assert torch.allclose(model.predict_proba(test.x, batch_size=5), expected, atol=1e-6, rtol=0)
    raw = rm.load(stored, calibrate_with=None)
    assert raw.calibrator is None
    assert torch.equal(raw.predict_proba(test.x), stored.scores("test").logits.softmax(dim=1))
    assert model.calibrator.report_.parameters["temperature"] == stored.result().temperature["nll"].value


def test_every_kind_of_input_means_the_same_image(model, new_images):
    path = new_images / "green" / "1.png"
    image = Image.open(path)
    array = np.asarray(image)
    expected = model.predict_proba(path)
    assert expected.shape == (1, 3)
    same = [str(path), image, array, array.transpose(2, 0, 1), torch.from_numpy(array.copy()), [path], [image, array][:1], array[None]]
    for x in (*same, model.preprocess(path)):
        assert torch.allclose(model.predict_proba(x), expected, atol=1e-6, rtol=0)
    many = model.predict_proba([path, image, array])
    assert torch.allclose(many, expected.expand(3, -1), atol=1e-6, rtol=0)
    folder = model.predict_proba(new_images)
    assert folder.shape == (12, 3)
    assert torch.allclose(folder[sorted(COLOURS).index("green") * 4 + 1], expected[0], atol=1e-6, rtol=0)
    assert model.predict(new_images) == [model.class_names[label] for label in folder.argmax(dim=1).tolist()]
    assert model.class_names == tuple(sorted(COLOURS))


def test_images_of_other_sizes_and_modes_are_fitted_as_in_training(model, tmp_path):
    rng = np.random.default_rng(2)
    square = rng.integers(0, 256, (SIZE, SIZE), dtype=np.uint8)
    grey, colour = Image.fromarray(square), Image.fromarray(np.repeat(square[..., None], 3, axis=2))
    assert torch.equal(model.predict_proba(grey), model.predict_proba(colour))
    assert torch.equal(model.predict_proba(square), model.predict_proba(colour))
    wide = Image.fromarray(rng.integers(0, 256, (30, 50, 3), dtype=np.uint8))
    middle = wide.crop((10, 0, 40, 30)).resize((SIZE, SIZE), Image.Resampling.BILINEAR)
    assert torch.equal(model.predict_proba(wide), model.predict_proba(middle))


def test_what_cannot_be_predicted_is_refused(model, tmp_path):
    (tmp_path / "text.png").write_text("no image")
    wrong = {
        "there is none": tmp_path / "absent.png",
        "must be one that can be decoded": tmp_path / "text.png",
        "got an empty list": [],
        "x must be a path": 3,
        "or floats, got torch.int64": torch.zeros(2, 3, SIZE, SIZE, dtype=torch.long),
        "1 or 3 channels": torch.zeros(2, 5, SIZE, SIZE, dtype=torch.uint8),
        "a folder must be given alone": [tmp_path],
        "images of floats must have the shape that the network takes": torch.zeros(1, 3, 5, 5) - 1,
    }
    make = Image.new("RGB", (SIZE, SIZE))
    make.save(tmp_path / "a.png")
    make.save(tmp_path / "b.png")
    for message, x in wrong.items():
        with pytest.raises(InvalidInput, match=message), unchecked():
            model.predict_proba(x)
    with pytest.raises(InvalidInput, match="batch_size must be at least 1, got 0"):
        model.predict_proba(make, batch_size=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: torch.from_numpy(x).to_sparse(), "x must be a dense tensor"),
        (lambda x: torch.from_numpy(x).to(torch.float8_e4m3fn), "x must be floating point, got torch.float8"),
        (lambda x: torch.from_numpy(x).to(torch.complex64), "x must hold real numbers"),
        (lambda x: torch.from_numpy(x).to("meta"), "x must hold values, got a tensor on the meta device"),
        (lambda x: np.ma.masked_array(x, mask=x > 0), "x must not be a masked array"),
        (lambda x: np.ma.masked_array(x, mask=x > 0).astype(np.uint8), "x must not be a masked array"),
    ],
)
def test_arrays_of_odd_kinds_are_refused(model, change, message):
    """A masked array would be predicted as if nothing were masked."""
    with pytest.raises(InvalidInput, match=message), unchecked():
        model.predict_logits(change(np.full((2, 3, SIZE, SIZE), -2.0, np.float32)))


@pytest.mark.parametrize("dtype", [">f4", ">f8", np.longdouble, np.float16])
def test_floats_of_any_type_are_the_same_input(model, dtype):
    x = np.linspace(-2, 2, 6 * SIZE**2).reshape(2, 3, SIZE, SIZE).astype(np.float16)
    torch.testing.assert_close(model.predict_logits(x.astype(dtype)), model.predict_logits(x.astype(np.float32)))


@pytest.mark.parametrize(("largest", "said"), [(1.0, "0 to 1"), (255.0, "0 to 255"), (4095.0, r"[\d.]+ to [\d.]+")])
def test_colours_in_floats_are_warned_of(model, largest, said, tmp_path):
    """Which the network would take as its input: it is sure of whatever it sees."""
    colours = torch.rand(2, 3, SIZE, SIZE) * largest
    with pytest.warns(UserWarning, match=f"x holds floats from {said}, which the network takes as they are, not as colours"):
        model.predict_proba(colours)
    model.predict_proba(model.preprocess((colours / largest * 255).byte()))
    np.savez(tmp_path / "colours.npz", x=colours.numpy(), y=list(COLOURS[:2]))
    with pytest.warns(UserWarning, match=f"x holds floats from {said}"):
        model.evaluate(f"npz:{tmp_path / 'colours.npz'}", replicates=10)


def test_evaluate_of_other_data_matches_classes_by_name(stored, model, new_images, tmp_path):
    found = model.evaluate(f"folder:{new_images}", replicates=10)
    assert found.n == 12
    right = np.mean([name == colour for colour in sorted(COLOURS) for name in model.predict(new_images / colour)])
    assert found.value("accuracy") == pytest.approx(right)
    assert found.calibration.parameters == model.calibrator.report_.parameters
    (new_images / "blue").rename(new_images / "azure")
    with pytest.raises(InvalidInput, match="classes that the model knows, it does not know 'azure'"):
        model.evaluate(f"folder:{new_images}")


@pytest.mark.parametrize("size", [SIZE, 70])
def test_samples_that_were_trained_on_are_found_by_content(size, tmp_path):
    """Accuracy on them says nothing: under other names, in other folders, and after the training images have changed."""
    photos = make_images(tmp_path / "photos", 20, size=size)
    optimisation = rm.Optimisation(epochs=1, batch_size=16, lr=0.02, milestones=())
    data = Folder(path=str(photos), image_size=size)  # in memory, or in files
    run = rm.train(rm.Run("ce", data=data, model="mlp", optimisation=optimisation), runs=tmp_path / "runs")
    model = rm.load(run, calibrate_with=None)
    for number, path in enumerate(sorted(photos.rglob("*.png"))):
        path.rename(path.with_name(f"renamed-{number}.png"))
    counted = "of 66 samples 45 are the run's training samples and 3 its validation samples"
    said = rf"{counted}: accuracy is [\d.]+% on all, [\d.]+% on the 18 others"
    make_images(tmp_path / "more", 2, seed=5, size=size)
    for path in (tmp_path / "more").rglob("*.png"):
        path.rename(photos / path.relative_to(tmp_path / "more"))
    with pytest.warns(UserWarning, match=said):
        found = model.evaluate(f"folder:{photos}", replicates=10)
    sizes = {name: group.n for name, group in found.groups["overlap"].before.groups.items()}
    assert sizes == {"new": 18, "training": 45, "validation": 3}
    with pytest.raises(InvalidInput, match=rf"no sample that the run was trained or validated on, .* but {counted}"):
        model.evaluate(f"folder:{photos}", strict=True)
    with pytest.warns(UserWarning, match=counted):
        sites = model.evaluate(f"folder:{photos}", replicates=10, groups=["a"] * 66).groups
    assert list(sites) == ["overlap", "group"]
    new = make_images(tmp_path / "new", 4, seed=7, size=size)
    assert model.evaluate(f"folder:{new}", replicates=10, strict=True).groups == {}


def test_where_nothing_is_known_of_the_training_samples_that_is_said(stored, new_images, tmp_path):
    copy = shutil.copytree(stored.path, tmp_path / stored.path.name)
    (copy / "samples.npz").unlink()
    unknown = r"samples cannot be compared with those that run .* was trained on: it keeps no hashes of them"
    with pytest.warns(UserWarning, match=unknown):
        rm.load(copy).evaluate(f"folder:{new_images}", replicates=10)
    with pytest.raises(InvalidInput, match=f"strict must be left out where {unknown}"):
        rm.load(copy).evaluate(f"folder:{new_images}", strict=True)
    exported = rm.load(stored).export(tmp_path / "model").folder
    with pytest.raises(InvalidInput, match=r"strict must go with a run, .*, got an exported folder"):
        rm.load(exported).evaluate(f"folder:{new_images}", strict=True)
    np.savez(copy / "samples.npz", train=np.zeros(3), val=np.zeros(3), shape=np.zeros(3))
    with pytest.raises(InvalidInput, match=r"samples.npz must hold the hashes of samples that training wrote"):
        rm.load(copy).evaluate(f"folder:{new_images}")


def test_evaluate_takes_loaders_and_pairs(stored, model):
    test = stored.run.data.load().test
    expected = model.evaluate((test.x, test.y), replicates=10)
    loader = DataLoader(TensorDataset(model.preprocess(test.x), test.y), batch_size=7)
    for found in (model.evaluate(loader, replicates=10), rm.evaluate(model.network, loader, replicates=10, calibrate_on=model.calibrator)):
        assert found.value("nll") == pytest.approx(expected.value("nll"), abs=1e-6)
        assert found.value("nll", calibrated=True) == pytest.approx(expected.value("nll", calibrated=True), abs=1e-6)
    # The handle itself is a module that gives calibrated logits.
    assert rm.evaluate(model, loader, replicates=10).value("nll") == pytest.approx(expected.value("nll", calibrated=True), abs=1e-6)


def test_a_model_is_evaluated_as_it_is_and_left_as_it_was():
    model = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Linear(4, 3))
    data = TensorDataset(torch.randn(20, 4), torch.arange(20) % 3)
    found = rm.evaluate(model, DataLoader(data, batch_size=6), replicates=10)
    assert found.n == 20
    assert found.value("nll") == rm.evaluate(model.eval()(data.tensors[0]).detach(), data.tensors[1], replicates=10).value("nll")
    assert rm.evaluate(model.train(), DataLoader(data), replicates=10).n == 20
    assert model.training
    for wrong, message in ((torch.zeros(3), "iterable of batches"), ([], "got no batch"), ([torch.zeros(3)], "got a batch")):
        with pytest.raises(InvalidInput, match=message):
            rm.evaluate(model, wrong)


def test_load_says_what_is_wrong(stored, tmp_path):
    for path, message in ((tmp_path / "absent", "there is none at"), (tmp_path, "neither run.json nor config.json")):
        with pytest.raises(InvalidInput, match=message):
            rm.load(path)
    with pytest.raises(InvalidInput, match="unknown calibrator 'temprature'; did you mean 'temperature'"):
        rm.load(stored, calibrate_with="temprature")
    with pytest.raises(InvalidInput, match="model must have the weights of run"):
        rm.load(stored, model=torch.nn.Linear(2, 3))


@pytest.mark.slow
@pytest.mark.parametrize("to", ["pt2", "onnx"])
def test_a_network_of_a_table_takes_rows_and_no_images(to, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 4)) * [1, 10, 100, 1000] + 5
    np.savez(tmp_path / "table.npz", x=x, y=np.where(x[:, 0] + x[:, 1] / 10 > 6, "high", "low"))
    run = rm.Run("ce", data=f"npz:{tmp_path / 'table.npz'}", optimisation=rm.Optimisation(epochs=5, batch_size=16, milestones=()))
    stored = rm.train(run, runs=tmp_path / "runs")
    model = rm.load(stored, calibrate_with="histogram")
    assert model.class_names == ("high", "low")
    test = run.data.load().test
    assert torch.equal(model.predict_proba(test.x), model.calibrator.predict_proba(stored.scores("test").logits))
    row = model.predict_proba(x[0])
    assert torch.allclose(row, model.predict_proba(list(x[:3]))[:1], atol=1e-6)
    with pytest.warns(UserWarning, match="of 120 samples 88 are the run's training samples and 9 its validation samples"):
        assert model.evaluate(f"npz:{tmp_path / 'table.npz'}", replicates=10).n == 120
    exported = model.export(tmp_path / "model", [to])
    assert torch.equal(rm.load(exported.folder).predict_proba(x[0]), row)
    assert "tabular-classification" in (exported.folder / "README.md").read_text()
    with pytest.raises(InvalidInput, match=r"x must be an array of floats of shape \[4\] for each sample"):
        model.predict_proba(Image.new("RGB", (4, 4)))
    whole = np.array([[5, 6, 50, 700]])
    assert torch.equal(model.predict_proba(whole), model.predict_proba(whole.astype(float)))
    with pytest.raises(InvalidInput, match="x must hold finite numbers"):
        model.predict_proba(np.full((1, 4), np.nan))
    with pytest.raises(InvalidInput, match=r"x must be \[N, 4\], got \[2, 5\]"):
        model.predict_proba(np.zeros((2, 5)))


def test_an_array_is_treated_as_the_picture_that_it_is(model):
    rng = np.random.default_rng(3)
    array = rng.integers(0, 256, (40, 30, 3), dtype=np.uint8)
    expected = model.preprocess(Image.fromarray(array))
    for x in (array, torch.from_numpy(array), array[None], [array]):
        assert torch.equal(model.preprocess(x), expected)
    for channels in (2, 4):  # transparency, not 40 grey images
        with pytest.raises(InvalidInput, match="images of 1 or 3 channels"):
            model.predict_proba(rng.integers(0, 256, (40, 30, channels), dtype=np.uint8))


def test_predicting_never_changes_the_model(stored, new_images):
    model = rm.load(stored)
    expected, before = model.predict_proba(new_images), {name: value.clone() for name, value in model.state_dict().items()}
    model.train()
    assert torch.equal(model.predict_proba(new_images), expected)
    assert model.network.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.allclose(model.double().predict_proba(new_images), expected, atol=1e-5)


def test_devices_and_paths_are_checked(stored):
    for device in ("gpu", "cuda:77"):
        with pytest.raises(InvalidInput, match="device must be auto or one that this machine has"):
            rm.load(stored, device=device)
    with pytest.raises(InvalidInput, match="path must be a run, its directory or an exported folder, got 3"), unchecked():
        rm.load(3)


def test_a_temperature_that_its_own_samples_speak_against_is_not_applied(stored, monkeypatch):
    """As with 16 validation images, whose temperature raised the ECE of others from 22 to 33 %."""
    monkeypatch.setattr("rankmixup.posthoc.base._MANY", 1000)
    with pytest.warns(
        UserWarning, match=r"^temperature calibration is not applied: on the 6 validation samples it raises the NLL of samples"
    ):
        model = rm.load(stored)
    assert model.calibrator is None
