"""A folder from outside executes nothing, and is refused in a sentence where it is wrong."""

import dataclasses
import hashlib
import json
import pickle
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

import rankmixup as rm
from rankmixup.errors import InvalidInput
from tests.oracles import unchecked


@pytest.fixture(scope="module")
def good(stored, tmp_path_factory):
    return rm.load(stored).export(tmp_path_factory.mktemp("exported") / "model").folder


@pytest.fixture
def folder(good, tmp_path):
    return shutil.copytree(good, tmp_path / "model")


def signed(folder) -> None:
    """Checksums of what is there now, as whoever changed the folder would write them."""
    names = [path.name for path in folder.iterdir() if path.name != "SHA256SUMS"]
    lines = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}" for name in names]
    (folder / "SHA256SUMS").write_text("\n".join(lines) + "\n")


def refused(folder, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        rm.load(folder)
    assert "\n" not in str(caught.value)


class Payload:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("write", [pickle.dump, torch.save], ids=["pickle", "torch"])
def test_a_pickle_in_place_of_weights_executes_nothing(folder, tmp_path, write):
    with (folder / "model.safetensors").open("wb") as file:
        write(Payload(tmp_path / "executed"), file)
    signed(folder)
    refused(folder, "model.safetensors must be a safetensors file, it cannot be read")
    assert not (tmp_path / "executed").exists()


def test_a_threshold_that_is_none_is_refused(folder):
    said = json.loads((folder / "config.json").read_text())
    kept = {"n": 9, "kept": 8, "right": 7}
    good = {"accuracy": 0.9, "confidence": 0.5, "chosen_on": "val", "calibration": kept}
    wrong = {
        "confidence must be a number or null": {"confidence": "high"},
        "confidence of a threshold must be between 0 and 1, got 2": {"confidence": 2.0},
        "accept_at must be an accuracy between 0 and 1": {"accuracy": 95},
        "right <= kept <= n": {"calibration": kept | {"right": 9}},
        "kept must be an integer": {"calibration": kept | {"kept": -1}},
    }
    for message, change in wrong.items():
        (folder / "config.json").write_text(json.dumps(said | {"acceptance": good | change}))
        signed(folder)
        refused(folder, f"config.json: .*{message}")
    (folder / "config.json").write_text(json.dumps(said | {"acceptance": good}))
    signed(folder)
    assert rm.load(folder).threshold.confidence == 0.5


def test_a_graph_is_never_read(folder, tmp_path):
    with (folder / "model.pt2").open("wb") as file:
        pickle.dump(Payload(tmp_path / "executed"), file)
    signed(folder)
    rm.load(folder)
    assert not (tmp_path / "executed").exists()


def changed(folder, **values) -> None:
    config = json.loads((folder / "config.json").read_text())
    for path, value in values.items():
        place = config
        *parents, last = path.split("__")
        for name in parents:
            place = place[name]
        place[last] = value
    (folder / "config.json").write_text(json.dumps(config))
    signed(folder)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"network__name": "../../etc/passwd"}, "unknown model '../../etc/passwd'"),
        ({"network__name": "timm/../../evil"}, "unknown model of timm"),
        ({"network__name": "timm/hf-hub:evil/model"}, "unknown model of timm"),
        ({"network__name": "resnet20"}, "weights must be those of the network that config.json names"),
        ({"network__image_size": 10**9, "preprocessing__image_size": 10**9}, "image_size must be at most 8192"),
        ({"network__num_classes": 10**6}, "num_classes of network and preprocessing must agree"),
        ({"class_names": ["a\u0000b", "c", "d"]}, "class_names must have no control characters"),
        ({"class_names": "abc"}, "class_names must be a list"),
        ({"preprocessing__std": [0.0, 1.0, 1.0]}, "std must be positive"),
        ({"preprocessing__mean": [0.0]}, "in_channels of network and preprocessing must agree"),
        ({"calibration__method": "../evil"}, "unknown calibrator '../evil'"),
        ({"calibration__method": "vector"}, "what 'vector' was fitted to must be scale, bias"),
        ({"calibration": {"method": "temperature"}}, "calibration must have"),
        ({"schema": 2}, "schema must be 1"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(folder, values, message):
    changed(folder, **values)
    refused(folder, message)


def test_a_small_mlp_cannot_ask_for_much_memory(tmp_path, stored_mlp):
    """Its first layer would take 50 GB; only the shapes are compared."""
    folder = rm.load(stored_mlp).export(tmp_path / "model").folder
    changed(folder, network__image_size=8000, preprocessing__image_size=8000)
    refused(folder, "weights must be those of the network that config.json names")


def test_damage_is_noticed(folder):
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "model.safetensors").write_bytes(content)
    refused(folder, "model.safetensors is damaged or was changed")
    (folder / "SHA256SUMS").unlink()
    refused(folder, "SHA256SUMS must be a file of checksums")


def test_weights_that_are_not_finite_or_not_its_own_are_refused(folder):
    state = load_file(folder / "model.safetensors")
    save_file({**state, "other.weight": torch.zeros(1)}, folder / "model.safetensors")
    signed(folder)
    refused(folder, "must hold weights of a network and a calibration, it holds others")
    save_file({**state, "calibration.temperature": torch.tensor(float("nan"), dtype=torch.float64)}, folder / "model.safetensors")
    signed(folder)
    refused(folder, "what 'temperature' was fitted to must be finite")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 3e38])
@pytest.mark.parametrize("calibrate_with", ["temperature", None])
def test_a_network_that_gives_no_finite_logits_makes_no_prediction(folder, number, calibrate_with):
    state = load_file(folder / "model.safetensors")
    name = sorted(name for name in state if name.startswith("network.") and name.endswith("weight"))[-1]
    save_file({**state, name: torch.full_like(state[name], number)}, folder / "model.safetensors")
    signed(folder)
    model = rm.load(folder, calibrate_with=calibrate_with)
    with pytest.raises(InvalidInput, match="the network must return finite logits"):
        model.predict_proba(torch.full((2, *model.view.input_shape), 255, dtype=torch.uint8))


@pytest.mark.parametrize(
    ("temperature", "message"),
    [
        (0.0, "what 'temperature' was fitted to must make probabilities of logits, such as a temperature above 0 does"),
        (-1.0, "what 'temperature' was fitted to must make probabilities of logits"),
        (1e-320, "what 'temperature' was fitted to must make probabilities of logits"),
        ([1.0, 2.0], "what 'temperature' was fitted to must have the shapes for 3 classes, it does not"),
        ([[[1.0]]], r"what 'temperature' was fitted to must have the shapes for 3 classes, it gives \[1, 3, 3\]"),
        ([[1.0], [2.0]], "what 'temperature' was fitted to must have the shapes for 3 classes, it does not"),
        ([[1.0], [2.0], [3.0]], "what 'temperature' was fitted to must have the shapes for 3 classes, it does not"),
        ([], "what 'temperature' was fitted to must have the shapes for 3 classes"),
    ],
)
def test_a_temperature_that_makes_no_probabilities_is_refused(folder, temperature, message):
    state = load_file(folder / "model.safetensors")
    save_file({**state, "calibration.temperature": torch.tensor(temperature, dtype=torch.float64)}, folder / "model.safetensors")
    signed(folder)
    with unchecked():
        refused(folder, message)


def test_a_folder_of_version_0_2_is_read_as_it_was_written(stored_mlp, tmp_path):
    """Its preprocessing held the augmentation of training too, which says how images are resized, and none of the steps."""
    model = rm.load(stored_mlp)
    folder = model.export(tmp_path / "model").folder
    config = json.loads((folder / "config.json").read_text())
    view = dataclasses.replace(model.view, augment="resized-crop")
    config["preprocessing"] = {**dataclasses.asdict(view), "how": "..."}
    del config["training"]
    (folder / "config.json").write_text(json.dumps(config))
    signed(folder)
    assert rm.load(folder).view == view
