"""Images of any mode, size, format and orientation, whole or damaged, that a network predicts."""

import contextlib
import csv
import functools
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn

from rankmixup.data import View
from rankmixup.deploy.model import CalibratedModel, Origin
from rankmixup.errors import InvalidInput
from studies.fuzzing.case import Difference, Verdict
from studies.fuzzing.commands import call, require_orderly
from studies.fuzzing.damage import damage
from studies.fuzzing.exported import expected_probabilities, exported_original
from studies.fuzzing.values import hostile

__all__ = ["try_picture", "try_predict_command"]

_MODES = {
    ".png": ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"),
    ".jpg": ("L", "RGB", "CMYK"),
    ".bmp": ("1", "L", "P", "RGB"),
    ".gif": ("L", "P"),
    ".tif": ("1", "L", "LA", "RGB", "RGBA", "CMYK", "I;16", "F"),
    ".webp": ("RGB", "RGBA"),
    ".ppm": ("L", "RGB"),
}
_TURNED = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What makes an image upright, by the number that cameras note under the tag 274 of EXIF."""
_SIZES = (1, 8, 16, 64, 65, 72, 96)
_NAMES = ("a b", "a,b", 'a"b', "=1+1", "-x", "ünïcödé", "a'b", "[bold]", "a;b", "%s", "+1", "@x", "a\tb", "b" * 100, "{x}")
_CLASSES = tuple("abcdef")


@functools.lru_cache(maxsize=64)
def _model(size: int, channels: int, augment: Any) -> tuple[CalibratedModel, np.ndarray]:
    """A network whose logits are sums of all pixels with weights of their own, and these weights."""
    rng = np.random.default_rng(size + channels)
    weights = rng.normal(size=(channels * size**2, len(_CLASSES))) / size
    network = nn.Sequential(nn.Flatten(), nn.Linear(*weights.shape, bias=False))
    network[1].weight = nn.Parameter(torch.from_numpy(weights.T.copy()).float())
    view = View(size, (0.4, 0.5, 0.6)[:channels], (0.2, 0.25, 0.3)[:channels], augment)
    return CalibratedModel(network, None, _CLASSES, view, Origin("own:none")), weights


def _draw(rng: np.random.Generator, mode: str) -> Image.Image:
    """A picture with edges and noise."""
    width, height = (int(side) for side in rng.choice([1, 2, 7, 8, 16, 33, 64, 72, 100, 131, 200], size=2))
    channels = {"LA": 2, "RGB": 3, "P": 3, "RGBA": 4, "CMYK": 4}.get(mode, 1)
    ramp = np.add.outer(np.linspace(0, 120, height), np.linspace(0, 120, width))[..., None]
    noisy = ramp + rng.integers(-40, 136, size=(height, width, channels))
    values = noisy.clip(0, 255).astype(np.uint8)
    if mode in ("I;16", "F"):
        return Image.fromarray(values[..., 0].astype(np.float32 if mode == "F" else np.uint16) * (0.7 if mode == "F" else np.uint16(251)))
    if mode in ("1", "P"):
        return Image.fromarray(values[..., 0] if mode == "1" else values).convert(mode)
    return Image.fromarray(values[..., 0] if channels == 1 else values, mode)


def _save(rng: np.random.Generator, stem: Path) -> Path:
    ending = str(rng.choice(list(_MODES)))
    path = stem.with_name(stem.name + ending)
    options: dict[str, Any] = {}
    if ending in (".jpg", ".png", ".webp", ".tif") and rng.random() < 0.4:
        exif = Image.Exif()
        exif[274] = int(rng.choice([1, 2, 3, 4, 5, 6, 7, 8, 9, 0]))
        options["exif"] = exif
    if ending == ".png" and rng.random() < 0.1:
        options["transparency"] = 0
    image = _draw(rng, str(rng.choice(_MODES[ending])))
    if options.get("transparency") is not None and image.mode not in ("L", "P"):
        del options["transparency"]
    image.save(path, **options)
    return path


def _upright(image: Image.Image) -> np.ndarray:
    """The pixels [H, W, 3] of an open image: upright, 16 bits scaled to 8, transparency over black."""
    turned = None
    with contextlib.suppress(Exception):  # of a damaged note
        turned = _TURNED.get(image.getexif().get(274, 1))
    if image.mode == "F":
        raise ValueError("floats")
    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.float64)
        if values.min() < 0 or values.max() > 65535:
            raise ValueError("more than 16 bits")
        pixels = np.repeat(np.floor(values / 257 + 0.5).astype(np.uint8)[..., None], 3, axis=2)
    elif "A" in image.getbands() or "transparency" in image.info:
        rgba = np.asarray(image.convert("RGBA")).astype(np.float64)
        pixels = np.round(rgba[..., :3] * rgba[..., 3:] / 255).astype(np.uint8)
    else:
        pixels = np.asarray(image.convert("RGB"))
    return pixels if turned is None else np.asarray(Image.fromarray(pixels).transpose(turned))


def _fitted(pixels: np.ndarray, size: int, channels: int, augment: str) -> np.ndarray:
    """The pixels [S, S, C] that a network sees, by the words of the model card."""
    image = Image.fromarray(pixels).convert("L" if channels == 1 else "RGB")
    if augment != "resized-crop" and size <= 64:
        side = min(image.size)
        if image.size != (size, size):
            left, top = (image.width - side) // 2, (image.height - side) // 2
            image = image.crop((left, top, left + side, top + side)).resize((size, size), Image.Resampling.BILINEAR)
    else:
        shorter = round(size * 256 / 224) if augment == "resized-crop" else size
        longer = int(shorter * max(image.size) / min(image.size))
        image = image.resize((shorter, longer) if image.width <= image.height else (longer, shorter), Image.Resampling.BILINEAR)
        left, top = round((image.width - size) / 2), round((image.height - size) / 2)
        image = image.crop((left, top, left + size, top + size))
    return np.asarray(image).reshape(size, size, channels)


def _logits(pixels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    channels = pixels.shape[-1]
    mean, std = np.array([0.4, 0.5, 0.6])[:channels], np.array([0.2, 0.25, 0.3])[:channels]
    return ((pixels / 255 - mean) / std).transpose(2, 0, 1).reshape(-1) @ weights


def try_picture(rng: np.random.Generator, folder: Path) -> Verdict:
    """One image, given in every way: the logits must be those of numpy."""
    size, channels = int(rng.choice(_SIZES)), int(rng.choice([1, 3]))
    augment = str(rng.choice(["none", "crop", "resized-crop"]))
    model, weights = _model(size, channels, augment)
    if rng.random() < 0.2:
        return _hostile_array(rng, model, channels, size)
    path = _save(rng, folder / "image")
    if rng.random() < 0.3:
        path.write_bytes(damage(rng, path.read_bytes()))
    try:
        with Image.open(path) as image:
            image.load()
            pixels, blended = _upright(image), "A" in image.getbands() or "transparency" in image.info
    except Exception:  # a damaged file, or one that is to be refused
        _require_refused(lambda: model.predict_logits(path))
        return "refused"
    expected = _logits(_fitted(pixels, size, channels, augment), weights)
    # Blending with black may round the other way: by one level in every pixel.
    slack = 1e-4 + blended * abs(weights).sum(axis=0) / 255 / 0.2
    given: list[Any] = [path, str(path), [path, path], folder]
    if not blended and pixels.shape[0] not in (1, 3):  # else the first dimension may be that of the channels
        given += [pixels, torch.from_numpy(pixels.copy()), [pixels], Image.fromarray(pixels), np.stack([pixels, pixels])]
        given += [torch.from_numpy(pixels.copy()).permute(2, 0, 1)]
    for x in given:
        found = model.predict_logits(x).double().numpy()
        if (abs(found - expected) > slack).any():
            kind = f"{path.suffix} as {type(x).__name__}, {size} pixels, {channels} channels, {augment}, {pixels.shape}"
            raise Difference(f"{kind}: logits must be {expected.round(4).tolist()}, got {found[0].round(4).tolist()}")
    return "agrees"


def _require_refused(predict: Callable[[], Any]) -> None:
    try:
        found = predict()
    except InvalidInput:
        return
    raise Difference(f"an image that cannot be decoded must be refused, got {found.tolist()}")


def _hostile_array(rng: np.random.Generator, model: CalibratedModel, channels: int, size: int) -> Verdict:
    """An array that is no image, or an unusual one: refused, or finite logits."""
    shape = [int(rng.choice([1, 2, size])), channels, size, size]
    array = rng.integers(256, size=shape, dtype=np.uint8) if rng.random() < 0.5 else rng.normal(size=shape).astype(np.float32)
    found = model.predict_logits(hostile(rng, array if rng.random() < 0.5 else torch.from_numpy(array)))
    if found.ndim != 2 or found.shape[1] != len(_CLASSES) or not bool(found.isfinite().all()):
        raise Difference(f"logits must be finite and [N, {len(_CLASSES)}], got {list(found.shape)}")
    return "answered"


def try_predict_command(rng: np.random.Generator, folder: Path) -> Verdict:
    """The command on a folder of images: each is in the table under its name, with numpy's probability, or is left out and named."""
    images, rights, wrongs = folder / "images", {}, set()
    images.mkdir()
    for name in rng.choice(len(_NAMES), size=int(rng.integers(1, 6)), replace=False):
        inside = images / str(rng.choice(["", "sub", "a,b"]))
        inside.mkdir(exist_ok=True)
        path = _save(rng, inside / _NAMES[name])
        if rng.random() < 0.25:
            path.write_bytes(damage(rng, path.read_bytes()))
        elif rng.random() < 0.1:
            path.unlink()
            path.symlink_to(folder / "nowhere")
        key = str(path.relative_to(images))
        try:
            with Image.open(path) as image:
                image.load()
                if "A" in image.getbands() or "transparency" in image.info:
                    image = image.convert("RGBA")
                rights[key] = _upright(image), "A" in image.getbands()
        except Exception:
            wrongs.add(key)
    source = exported_original("temperature")
    out, as_json = folder / str(rng.choice(["out.csv", "out.json"])), bool(rng.random() < 0.3)
    written = rng.random() < 0.5
    status, printed, err = call("predict", str(source), str(images), *(["-o", str(out)] if written else []), *(["--json"] * as_json))
    require_orderly(status, printed, err, as_json=False)
    if status == 2:
        if rights:
            raise Difference(f"images that can be read must be predicted, got: {err}")
        return "refused"
    text = out.read_text() if written else printed
    rows = _rows(text, as_json=text.lstrip().startswith("{"))
    if {row[0] for row in rows} != rights.keys() or len(rows) != len(rights):
        raise Difference(f"names must be {sorted(rights)}, got {sorted(row[0] for row in rows)}")
    if status != (1 if wrongs else 0):
        raise Difference(f"the exit status must say whether images were left out ({sorted(wrongs)}), got {status}")
    for name, label, confidence in rows:
        pixels, blended = rights[name]
        expected = expected_probabilities(source, _fitted(pixels, 4, 3, "none")[None])[0]
        slack = 0.05 if blended else 1e-5
        if abs(expected.max() - confidence) > slack or expected[["cat", "dog", "eel"].index(label)] < expected.max() - slack:
            raise Difference(f"{name} must have {expected.tolist()}, got {label} with {confidence}")
    return "agrees"


def _rows(text: str, *, as_json: bool) -> list[tuple[str, str, float]]:
    if as_json:
        return [(row["name"], row["label"], row["confidence"]) for row in json.loads(text)["predictions"]]
    return [(row["name"], row["label"], float(row["confidence"])) for row in csv.DictReader(io.StringIO(text))]
