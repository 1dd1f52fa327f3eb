"""Corruptions of images: each image for itself, as numpy and Pillow have it; published files; and the command on a run."""

import atexit
import colorsys
import functools
import io
import json
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import rankmixup as rm
from rankmixup.data import Digits
from rankmixup.data.corruptions import CORRUPTIONS, PublishedImages, chosen_corruptions, corrupt
from rankmixup.errors import InvalidInput
from rankmixup.training.shifted import ShiftSettings
from studies.fuzzing.case import Difference, Verdict
from studies.fuzzing.commands import call, require_orderly
from studies.fuzzing.damage import damage
from studies.fuzzing.values import hostile

__all__ = ["try_shift"]

_NAMES = sorted(CORRUPTIONS)
_BLURS = ("gaussian_blur", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur")
_GROUPS = ("noise", "blur", "weather", "digital")
_CLASSES = 10


def try_shift(rng: np.random.Generator, folder: Path) -> Verdict:
    """One corruption, one choice of them, one published file or one command."""
    kind = rng.choice(["images", "hostile", "names", "published", "command"], p=[0.5, 0.25, 0.12, 0.12, 0.01])
    if kind == "images":
        return _images(rng)
    if kind == "hostile":
        return _hostile(rng)
    if kind == "names":
        return _names(rng)
    return _published(rng, folder) if kind == "published" else _command(rng, folder)


def _draw(rng: np.random.Generator) -> tuple[str, np.ndarray]:
    name, channels = _NAMES[int(rng.integers(len(_NAMES)))], int(rng.choice([1, 3]))
    channels = 3 if CORRUPTIONS[name].colour else channels
    height, width = (int(side) for side in rng.choice([4, 5, 8, 17, 32, 40], size=2))
    shape = (int(rng.integers(1, 4)), channels, height, width)
    images = rng.integers(256, size=shape, dtype=np.uint8)
    if rng.random() < 0.3:
        images[:] = images[:, :, :1, :1]  # of one colour
    return name, images


def _images(rng: np.random.Generator) -> Verdict:
    name, images = _draw(rng)
    severity, seed, index = int(rng.integers(1, 6)), int(rng.integers(3)), rng.integers(1000, size=len(images))
    given = torch.from_numpy(images.copy())
    found = corrupt(given, name, severity, index=torch.from_numpy(index), seed=seed)
    if found.dtype != torch.uint8 or found.shape != given.shape or not np.array_equal(given.numpy(), images):
        raise Difference(f"{name} must give bytes {list(given.shape)} and leave its images alone, got {found.dtype} {list(found.shape)}")
    place = int(rng.integers(len(images)))
    alone = corrupt(given[place : place + 1], name, severity, index=torch.from_numpy(index[place : place + 1]), seed=seed)
    if not torch.equal(alone[0], found[place]):
        raise Difference(f"{name} of an image must not depend on the others of its batch, it does at {list(given.shape)}")
    one, other = images[place], found[place].numpy()
    constants = CORRUPTIONS[name].constants(min(images.shape[2:]), severity)
    if name == "impulse_noise" and not np.isin(other[other != one], (0, 255)).all():
        raise Difference("impulse noise must be black or white")
    if name in _BLURS and one.min(axis=(1, 2)).tolist() == one.max(axis=(1, 2)).tolist():
        _near(name, other, one.astype(float))
        return "agrees"
    expected = _expected(name, one, constants)
    if expected is None:
        return "answered"
    _near(name, other, expected)
    return "agrees"


def _expected(name: str, image: np.ndarray, constants: Any) -> np.ndarray | None:
    """The levels [C, H, W] by the definition, with numpy, colorsys and Pillow; None for what is drawn or has no short one."""
    if name == "contrast":
        mean = image.mean(axis=(1, 2), keepdims=True)
        return np.clip((image - mean) * constants + mean, 0, 255)
    if name == "brightness" and len(image) == 1:
        return np.clip(image + 255 * constants, 0, 255)
    if name in ("brightness", "saturate"):
        rows = []
        for red, green, blue in (image.reshape(3, -1).T / 255).tolist():
            hue, saturation, value = colorsys.rgb_to_hsv(red, green, blue)
            if name == "brightness":
                value = min(1.0, value + constants)
            else:
                saturation = min(1.0, max(0.0, saturation * constants[0] + constants[1]))
            rows.append(colorsys.hsv_to_rgb(hue, saturation, value))
        return 255 * np.array(rows).T.reshape(image.shape)
    if name in ("pixelate", "jpeg_compression"):
        picture = Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0))
        if name == "pixelate":
            small = picture.resize([int(side * constants) for side in picture.size], Image.Resampling.BOX)
            changed = small.resize(picture.size, Image.Resampling.BOX)
        else:
            picture.save(file := io.BytesIO(), "JPEG", quality=constants)
            changed = Image.open(file)
        pixels = np.asarray(changed).astype(float)
        return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    return None


def _near(name: str, found: np.ndarray, expected: np.ndarray) -> None:
    """Levels are truncated, so that they may lie one below."""
    gap = expected - found
    if gap.min() < -0.01 or gap.max() > 1.01:
        raise Difference(f"{name} must give levels up to one below the exact ones, it is {gap.min():.3f} to {gap.max():.3f} below")


def _hostile(rng: np.random.Generator) -> Verdict:
    name, images = _draw(rng)
    arguments: dict[str, Any] = {
        "images": torch.from_numpy(images),
        "name": name,
        "severity": 3,
        "index": torch.arange(len(images)),
        "seed": 0,
    }
    key = str(rng.choice(list(arguments)))
    arguments[key] = hostile(rng, arguments[key])
    found = corrupt(arguments.pop("images"), arguments.pop("name"), arguments.pop("severity"), **arguments)
    if found.dtype != torch.uint8 or (key != "images" and found.shape != images.shape):
        raise Difference(f"{name} must give bytes {list(images.shape)}, got {found.dtype} {list(found.shape)}")
    return "answered"


def _names(rng: np.random.Generator) -> Verdict:
    words = [*_NAMES, *_GROUPS, "all", "snow", "frost", "Fog", "", "fog ", "blurr"]
    chosen = [words[int(i)] for i in rng.choice(len(words), size=int(rng.integers(1, 5)))]
    valid = {*_NAMES, *_GROUPS, "all"}
    try:
        found = chosen_corruptions(chosen)
    except InvalidInput:
        if set(chosen) <= valid:
            raise Difference(f"{chosen} must be taken, it was refused") from None
        raise
    expected = {name for name in _NAMES if {"all", name, CORRUPTIONS[name].group} & set(chosen)}
    if not set(chosen) <= valid or set(found) != expected or len(found) != len(expected):
        raise Difference(f"{chosen} must mean {sorted(expected)}, got {found}")
    return "agrees"


def _published(rng: np.random.Generator, folder: Path) -> Verdict:
    """Files as they are published, whole or damaged."""
    root, size = folder / "CIFAR-10-C", int(rng.integers(1, 4))
    root.mkdir()
    images = rng.integers(256, size=(5 * size, 32, 32, 3), dtype=np.uint8)
    labels = np.tile(rng.integers(_CLASSES, size=size), 5)
    np.save(root / "fog.npy", images)
    np.save(root / "labels.npy", labels)
    severity, damaged = int(rng.integers(1, 6)), rng.random() < 0.6
    if damaged:
        path = root / str(rng.choice(["fog.npy", "labels.npy"]))
        if rng.random() < 0.5:
            _write_hostile(rng, path, images if path.name == "fog.npy" else labels)
        else:
            path.write_bytes(damage(rng, path.read_bytes()[:200]) + path.read_bytes()[200:])
    published = PublishedImages(root, _CLASSES)
    try:
        split = published.split("fog", severity)
    except InvalidInput as error:
        if not damaged:
            raise Difference(f"whole files must be read, got: {error}") from error
        raise
    rows = slice((severity - 1) * size, severity * size)
    if damaged:
        if split.x.dtype != torch.uint8 or len(split.x) != len(split.y) or int(split.y.max()) >= _CLASSES:
            raise Difference(f"what is read must be bytes with a label each, got {split.x.dtype} {list(split.x.shape)}")
        return "answered"
    if not np.array_equal(split.x.permute(0, 2, 3, 1).numpy(), images[rows]) or split.y.tolist() != labels[rows].tolist():
        raise Difference(f"severity {severity} must be images {rows} with their labels, it is not")
    return "agrees"


def _write_hostile(rng: np.random.Generator, path: Path, like: np.ndarray) -> None:
    """An npy file of something else; of nothing if it cannot be put into one."""
    value = hostile(rng, like)
    try:
        array = np.asanyarray(value.detach().numpy() if isinstance(value, torch.Tensor) else value)
        np.save(path, array)
    except (TypeError, ValueError, RuntimeError):
        np.save(path, like[:0])


@functools.cache
def _run() -> Path:
    """A finished run, made once in each process."""
    root = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    run = rm.Run("ce", data=Digits(train_size=50), model="mlp", optimisation=rm.Optimisation(epochs=1, batch_size=16, milestones=()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rm.train(run, runs=root, accelerator="cpu").path


def _command(rng: np.random.Generator, folder: Path) -> Verdict:
    """The accuracy of a run on corrupted test images is that of its predictions of these images, made here one after the other."""
    run = Path(shutil.copytree(_run(), folder / _run().name))
    grey = [name for name in _NAMES if not CORRUPTIONS[name].colour]
    names = [grey[int(i)] for i in rng.choice(len(grey), size=int(rng.integers(1, 3)), replace=False)]
    severity, seed = int(rng.integers(1, 6)), int(rng.integers(3))
    options = ["--corruptions", *names, "--severities", str(severity), "--limit", "30", "--seed", str(seed), "--replicates", "2", "--json"]
    status, out, err = call("shift", str(run), "--data-root", str(folder), *options)
    require_orderly(status, out, err, as_json=True)
    if status != 0:
        raise Difference(f"a finished run must be evaluated, got: {err}")
    stored = rm.load(run, device="cpu", calibrate_with=None)
    test = Digits(train_size=50).load(None).test
    where = ShiftSettings(limit=30).subset(len(test))
    clean, right = test.x[where], []
    for name in names:
        shifted = corrupt(clean, name, severity, index=test.index[where], seed=seed)
        right.append((stored.predict_logits(shifted).argmax(dim=1) == test.y[where]).double().mean().item())
    unchanged = (stored.predict_logits(clean).argmax(dim=1) == test.y[where]).double().mean().item()
    for found in json.loads(out)["methods"]["ce"]["severities"]:
        expected = float(np.mean(right)) if found["severity"] else unchanged
        if abs(found["before"]["accuracy"]["value"] - expected) > 1e-9:
            raise Difference(f"accuracy on {names} at severity {found['severity']} must be {expected}, got {found['before']['accuracy']}")
    return "agrees"
