"""Exported folders of which a file is changed: refused, or loaded as exactly what the files say."""

import atexit
import functools
import hashlib
import json
import math
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch

import rankmixup as rm
from rankmixup.data import View
from rankmixup.deploy.model import CalibratedModel, Origin
from rankmixup.models import build_model
from rankmixup.posthoc import CALIBRATORS
from studies.fuzzing.case import Difference, Verdict
from studies.fuzzing.damage import damage, damage_json

__all__ = ["expected_probabilities", "exported_original", "try_exported_folder"]

_FILES = ("config.json", "model.safetensors", "SHA256SUMS")
_CALIBRATORS = (None, "temperature", "vector", "ensemble-temperature", "isotonic", "histogram")
_SIZE, _CLASSES = 4, ("cat", "dog", "eel")
_VALUES: tuple[Any, ...] = (None, True, False, 0, -1, 1, 2, 3, 4, 7, 10**6, 2**63, 10**400, 0.5, -0.5, 1e-320, 1e308, math.nan, math.inf)
_VALUES += ("", "x", "nan", "../..", "\ud800", "a\nb", "mlp", "resnet8", "timm/x", "temperature", "isotonic", "floats", "resized-crop")
_VALUES += ([], {}, [[]], [1.0], [0.5, 0.5, 0.5], [1, 2], {"a": 1}, ["cat", "cat", "cat"], ["a", "b", "c"], "x" * 10_000, [0.0, 0.0, 0.0])
_TOLERANCE = 1e-5


@functools.cache
def exported_original(method: str | None) -> Path:
    """An exported folder, made once in each process."""
    root = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    rng = np.random.default_rng(0)
    logits, labels = torch.from_numpy(rng.normal(size=(200, 3)) * 3), torch.from_numpy(rng.integers(3, size=200))
    logits[torch.arange(150), labels[:150]] += 3
    network = build_model("mlp", num_classes=len(_CLASSES), image_size=_SIZE, in_channels=3)
    network.load_state_dict(
        {name: torch.from_numpy(rng.normal(size=value.shape) / 5).float() for name, value in network.state_dict().items()}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrator = None if method is None else CALIBRATORS[method]().fit(logits, labels)
    view = View(_SIZE, (0.4, 0.5, 0.6), (0.2, 0.25, 0.3))
    CalibratedModel(network, calibrator, _CLASSES, view, Origin("mlp")).export(root / "model")
    return root / "model"


def try_exported_folder(rng: np.random.Generator, folder: Path) -> Verdict:
    """One folder that is loaded and predicts."""
    method = _CALIBRATORS[int(rng.integers(len(_CALIBRATORS)))]
    for name in _FILES:
        shutil.copy(exported_original(method) / name, folder / name)
    how = str(rng.choice(["damaged", "config", "weights", "text"], p=[0.25, 0.35, 0.35, 0.05]))
    described = True  # whether the oracle can do what the folder says
    if how == "damaged":
        _damage(rng, folder)
    elif how == "config":
        described = _change_config(rng, folder / "config.json")
    elif how == "weights":
        _change_weights(rng, folder / "model.safetensors")
    else:
        (folder / "config.json").write_bytes(damage_json(rng, (folder / "config.json").read_text()))
        described = False
    if how != "damaged":
        sums = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in _FILES[:2]]
        (folder / "SHA256SUMS").write_text("".join(sums))
    calibrated = bool(rng.random() < 0.7)
    model = rm.load(folder, device="cpu", calibrate_with="temperature" if calibrated else None)
    images = rng.integers(256, size=(5, _SIZE, _SIZE, 3), dtype=np.uint8)
    found = model.predict_proba(images).numpy()
    if how == "damaged" and any((folder / name).read_bytes() != (exported_original(method) / name).read_bytes() for name in _FILES[:2]):
        raise Difference("a file that is not what its checksum says must be refused, it was loaded")
    if not np.isfinite(found).all() or (found < 0).any() or abs(found.sum(axis=1) - 1).max() > 1e-9:
        raise Difference(f"probabilities must be finite and sum to 1, got {found[0].tolist()}")
    said = json.loads((folder / "config.json").read_text())
    if model.predict(images) != [said["class_names"][place] for place in found.argmax(axis=1)]:
        raise Difference("the predicted classes must be those of config.json")
    if not described or (calibrated and method not in (None, "temperature") and said.get("calibration")):
        return "answered"
    expected = expected_probabilities(folder, images, calibrated)
    if abs(found - expected).max() > _TOLERANCE:
        raise Difference(f"probabilities must be {expected[0].tolist()}, got {found[0].tolist()}")
    return "agrees"


def _damage(rng: np.random.Generator, folder: Path) -> None:
    path = folder / _FILES[int(rng.integers(3))]
    kind = int(rng.integers(12))
    content = path.read_bytes()
    path.unlink()
    if kind == 0:
        path.mkdir()
    elif kind > 1:
        path.write_bytes(damage(rng, content))


def _change_config(rng: np.random.Generator, path: Path) -> bool:
    """Put a value that does not belong there into config.json; whether the oracle can do what it then says."""
    said = json.loads(path.read_text())
    places = list(_places(said))
    keys = places[int(rng.integers(len(places)))]
    owner = functools.reduce(lambda part, key: part[key], keys[:-1], said)
    if rng.random() < 0.15:
        del owner[keys[-1]]
    elif rng.random() < 0.1 and isinstance(owner, dict):
        owner[str(rng.choice(["more", "shape", "schema"]))] = _VALUES[int(rng.integers(len(_VALUES)))]
    else:
        owner[keys[-1]] = _VALUES[int(rng.integers(len(_VALUES)))]
    path.write_text(json.dumps(said))
    return keys[0] in ("class_names", "run", "versions", "calibration") or keys[:2] in (["preprocessing", "mean"], ["preprocessing", "std"])


def _places(said: Any, *keys: Any) -> Any:
    """The keys that lead to each value."""
    if keys:
        yield list(keys)
    for key, value in said.items() if isinstance(said, dict) else enumerate(said) if isinstance(said, list) else ():
        yield from _places(value, *keys, key)


def _change_weights(rng: np.random.Generator, path: Path) -> None:
    """Change, lose, rename or add a tensor."""
    state = safetensors.torch.load_file(path)
    # The few tensors of a calibration as often as the many of a network.
    part = str(rng.choice(["network", "calibration"]))
    names = [name for name in sorted(state) if name.startswith(part)] or sorted(state)
    name = names[int(rng.integers(len(names)))]
    value = state.pop(name)
    kind = int(rng.integers(10))
    if kind == 0:
        pass
    elif kind == 1:
        state[name + "x"] = value
    elif kind == 2:
        state |= {name: value, "more": value.clone()}
    elif kind == 3:
        state[name] = value.reshape(-1)[:0].clone()
    elif kind == 4:
        state[name] = torch.cat([value.reshape(1, -1), value.reshape(1, -1)])
    elif kind == 5:
        state[name] = value.to((torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.float64)[int(rng.integers(5))])
    elif kind == 6:
        state[name] = value.reshape(*value.shape, 1) if rng.random() < 0.5 else value.reshape(1, *value.shape)
    else:
        changed = value.reshape(-1).clone() if value.is_floating_point() else value.reshape(-1).double()
        numbers = (0.0, -1.0, 1e-300, 1e-30, 1e30, 3e38, 1e300, math.nan, math.inf, -math.inf, 0.5)
        number = torch.tensor(numbers[int(rng.integers(len(numbers)))], dtype=torch.float64).to(changed.dtype)
        changed[int(rng.integers(len(changed))) if len(changed) else slice(0)] = number
        state[name] = changed.reshape(value.shape)
    safetensors.torch.save_file(state, path)


def expected_probabilities(folder: Path, images: np.ndarray, calibrated: bool = True) -> np.ndarray:
    """Probabilities of bytes [N, S, S, C] by what the files of a folder say, with numpy alone."""
    said = json.loads((folder / "config.json").read_text())
    state = {name: value.double().numpy() for name, value in safetensors.torch.load_file(folder / "model.safetensors").items()}
    view = said["preprocessing"]
    values = ((images / 255 - np.array(view["mean"])) / np.array(view["std"])).transpose(0, 3, 1, 2).reshape(len(images), -1)
    for layer in ("hidden1", "hidden2", "fc"):
        values = values @ state[f"network.{layer}.weight"].T + state[f"network.{layer}.bias"]
        values = values if layer == "fc" else np.maximum(values, 0)
    if calibrated and said.get("calibration"):
        values = values / state["calibration.temperature"]
    shifted = np.exp(values - values.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)
