"""Data sets on disk, whole or damaged: arrays, image folders and the formats in which data sets are published."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
from scipy.io import savemat

from rankmixup.data import parse_source
from rankmixup.errors import InvalidInput
from studies.fuzzing.case import Difference, Verdict
from studies.fuzzing.damage import damage
from studies.fuzzing.values import hostile
from tests.data.original_formats import python2_pickle, write_cifar_batch, write_idx, write_image

__all__ = ["try_data_file"]

_CLASSES = 3


def try_data_file(rng: np.random.Generator, folder: Path) -> Verdict:
    """One data set that is loaded."""
    write = _WRITERS[int(rng.integers(len(_WRITERS)))]
    source, files = write(rng, folder)
    whole = bool(files) and rng.random() < 0.2
    if files and not whole:
        path = files[int(rng.integers(len(files)))]
        path.write_bytes(damage(rng, path.read_bytes()))
    try:
        with _without_checksums():
            data = parse_source(source).load(folder)
    except InvalidInput as error:
        if whole:
            raise Difference(f"a whole data set must be read, got: {error}") from error
        raise
    for split in (data.train, data.val, data.test):
        if len(split.x) != len(split.y) or int(split.y.min()) < 0 or int(split.y.max()) >= data.num_classes:
            raise Difference("a data set that was read must have a label from its classes for each image")
    return "answered"


@contextlib.contextmanager
def _without_checksums() -> Iterator[None]:
    """Published files have known checksums, which stop every damage before a reader sees it; here the readers are on their own."""
    with contextlib.ExitStack() as stack:
        for module in ("cifar", "svhn", "fashion_mnist"):
            stack.enter_context(mock.patch(f"rankmixup.data.{module}.verify"))
        yield


def _images(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(0, 256, shape, dtype=np.uint8)


def _npz(rng: np.random.Generator, folder: Path) -> tuple[str, list[Path]]:
    path = folder / "own.npz"
    arrays = {"x": _images(rng, 30, 8, 8), "y": np.arange(30) % _CLASSES}
    if rng.random() < 0.5:
        name = str(rng.choice(["x", "y"]))
        value = hostile(rng, arrays[name])
        try:
            np.savez(path, **{**arrays, name: np.asanyarray(value)})
            return f"npz:{path}", []  # bad enough as it is
        except (ValueError, TypeError, RuntimeError):
            pass
    np.savez(path, **arrays)
    return f"npz:{path}", [path]


def _folder(rng: np.random.Generator, folder: Path) -> tuple[str, list[Path]]:
    suffix = str(rng.choice([".png", ".bmp", ".jpg"]))
    files = [folder / "images" / name / f"{number}{suffix}" for name in ("cat", "dog", "owl") for number in range(6)]
    for path in files:
        write_image(path, _images(rng, 8, 8, 3))
    return f"folder:{folder / 'images'}", files


def _cifar(rng: np.random.Generator, folder: Path) -> tuple[str, list[Path]]:
    root = folder / "cifar-10-batches-py"
    files = [root / name for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")]
    labels = [number % 10 for number in range(40)]
    for path in files:
        write_cifar_batch(path, _images(rng, 40, 3, 32, 32), labels)
    files.append(root / "batches.meta")
    files[-1].write_bytes(python2_pickle({b"label_names": [f"class {number}".encode() for number in range(10)]}))
    return "cifar10", files


def _fashion(rng: np.random.Generator, folder: Path) -> tuple[str, list[Path]]:
    root = folder / "FashionMNIST" / "raw"
    files = []
    for name, size in (("train", 60), ("t10k", 20)):
        for kind, array in (("images-idx3", _images(rng, size, 28, 28)), ("labels-idx1", np.arange(size, dtype=np.uint8) % 10)):
            files.append(root / f"{name}-{kind}-ubyte.gz")
            write_idx(files[-1], array)
    return "fashion-mnist", files


def _svhn(rng: np.random.Generator, folder: Path) -> tuple[str, list[Path]]:
    files = [folder / "train_32x32.mat", folder / "test_32x32.mat"]
    for path in files:
        savemat(path, {"X": _images(rng, 32, 32, 3, 60), "y": (np.arange(60)[:, None] % 10 + 1).astype(np.uint8)})
    return "svhn", files


_WRITERS = (_npz, _folder, _cifar, _fashion, _svhn)
