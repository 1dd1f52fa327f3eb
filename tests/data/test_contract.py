"""Data sets that need no download keep the contract of all data sets, and a data set that does not is noticed."""

import inspect
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from rankmixup.data import Dataset, DataSource, Digits, Folder, Npz, Split, Synthetic, View
from rankmixup.testing import DatasetContract
from tests.data.original_formats import noise, write_image


def own_npz(folder):
    np.savez(folder / "own.npz", x=noise(60, 8, 8, 3), y=np.arange(60) % 3)
    return Npz(path=str(folder / "own.npz"))


def own_folder(folder, size=16):
    for number in range(24):
        write_image(folder / "own" / "ab"[number % 2] / f"{number}.png", noise(size, size, 3, seed=number))
    return Folder(path=str(folder / "own"))


def own_table(folder):
    np.savez(folder / "table.npz", x=np.random.default_rng(0).normal(size=(60, 4)), y=np.array(["b", "a"])[np.arange(60) % 2])
    return Npz(path=str(folder / "table.npz"))


SOURCES = {
    "digits": lambda _: Digits(),
    "digits-lt": lambda _: Digits(imbalance=5, sampling="class-balanced"),
    "synthetic": lambda _: Synthetic(train_size=50, val_size=20, test_size=30),
    "npz": own_npz,
    "npz-of-a-table": own_table,
    "folder": own_folder,
    "folder-of-large-images": lambda folder: own_folder(folder, 70),
}


class TestEveryDataSet(DatasetContract):
    @pytest.fixture(params=SOURCES)
    def data(self, request, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        return SOURCES[request.param](tmp_path)


def test_content_is_part_of_the_identity(tmp_path):
    """Of data sets at a path: other content, other hash."""
    first = own_npz(tmp_path)
    before = first.content_hash()  # of what is there when it is asked for
    np.savez(tmp_path / "own.npz", x=noise(60, 8, 8, 3, seed=1), y=np.arange(60) % 3)
    assert Npz(path=first.path).content_hash() != first.content_hash() == before


def split(start, label=0):
    return Split(torch.zeros(4, 1, 2, 2), torch.arange(4) % 2 + label, torch.arange(start, start + 4))


GOOD = Dataset(split(0), split(4), split(8), ("a", "b"), View(2, (0.0,), (1.0,)))
BROKEN = {
    "test_splits_are_disjoint": lambda: replace(GOOD, test=split(3)),
    "test_loads_the_same_samples_every_time": lambda: replace(GOOD, val=split(int(torch.randint(99, ())))),
    "test_labels_are_classes": lambda: replace(GOOD, test=split(8, label=1)),
    "test_images_have_the_shape_that_networks_are_built_for": lambda: replace(GOOD, train=replace(GOOD.train, x=torch.zeros(4, 1, 3, 3))),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_noticed(name):
    @dataclass(frozen=True)
    class Broken(DataSource):
        image_size = 2

        def read(self, root):
            return BROKEN[name]()

    available = {"data": Broken(), "loaded": Broken().load()}
    test = getattr(DatasetContract(), name)
    with pytest.raises(AssertionError):
        test(**{wanted: available[wanted] for wanted in inspect.signature(test).parameters})
