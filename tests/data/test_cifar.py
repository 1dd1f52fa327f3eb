import os
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision

from rankmixup.data import Cifar10, Cifar100
from rankmixup.errors import InvalidInput
from tests.data.original_formats import md5, noise, python2_pickle, write_cifar_batch

NAMES = [b"airplane", b"automobile", b"bird", b"cat", b"deer", b"dog", b"frog", b"horse", b"ship", b"truck"]


@pytest.fixture
def cifar10(tmp_path, monkeypatch):
    """Five batches of four images, a test batch of three, and their sums in the place of the published ones."""
    folder = tmp_path / "cifar-10-batches-py"
    for number in range(1, 6):
        write_cifar_batch(folder / f"data_batch_{number}", noise(4, 3, 32, 32, seed=number), [number, 0, 9, number])
    write_cifar_batch(folder / "test_batch", noise(3, 3, 32, 32, seed=6), [7, 8, 9])
    (folder / "batches.meta").write_bytes(python2_pickle({b"label_names": NAMES, b"num_vis": 3072}))
    monkeypatch.setattr(Cifar10, "files", {name: md5(folder / name) for name in Cifar10.files})
    return folder


def everything(dataset):
    """Images and labels of all splits in the order of the files."""
    splits = (dataset.train, dataset.val, dataset.test)
    order = torch.cat([split.index for split in splits]).argsort()
    return torch.cat([split.x for split in splits])[order], torch.cat([split.y for split in splits])[order]


def test_every_image_has_its_pixels_and_label(cifar10):
    data = Cifar10().load(cifar10.parent)
    x, y = everything(data)
    expected = np.concatenate([noise(4, 3, 32, 32, seed=number) for number in range(1, 6)] + [noise(3, 3, 32, 32, seed=6)])
    np.testing.assert_array_equal(x.numpy(), expected)
    assert y.tolist() == [label for number in range(1, 6) for label in (number, 0, 9, number)] + [7, 8, 9]
    assert (len(data.train), len(data.val), len(data.test)) == (18, 2, 3)
    assert data.test.index.tolist() == [20, 21, 22]
    assert data.class_names == tuple(name.decode() for name in NAMES)
    assert (data.view.image_size, data.view.in_channels, data.view.augment, data.view.padding, data.view.flip) == (32, 3, "crop", 4, True)
    assert data.view.mean == (0.4914, 0.4822, 0.4465)
    assert data.view.std == (0.2023, 0.1994, 0.2010)


def test_cifar100(tmp_path, monkeypatch):
    folder = tmp_path / "cifar-100-python"
    for number, (name, size) in enumerate((("train", 30), ("test", 5))):
        write_cifar_batch(folder / name, noise(size, 3, 32, 32, seed=number), [99 - i for i in range(size)], b"fine_labels")
    (folder / "meta").write_bytes(python2_pickle({b"fine_label_names": [f"class {i}".encode() for i in range(100)]}))
    monkeypatch.setattr(Cifar100, "files", {name: md5(folder / name) for name in Cifar100.files})
    data = Cifar100().load(tmp_path)
    x, y = everything(data)
    np.testing.assert_array_equal(x.numpy(), np.concatenate([noise(30, 3, 32, 32), noise(5, 3, 32, 32, seed=1)]))
    assert y.tolist() == [99 - i for i in range(30)] + [99 - i for i in range(5)]
    assert (len(data.train), len(data.val), data.num_classes, data.class_names[3]) == (27, 3, 100, "class 3")


def test_missing_and_damaged_files(cifar10):
    path = cifar10 / "data_batch_3"
    whole = path.read_bytes()
    path.unlink()
    with pytest.raises(InvalidInput, match=r"cifar10 must have .*data_batch_3, there is none; .*--download"):
        Cifar10().load(cifar10.parent)
    for damaged in (whole[:-100], whole[:-1000] + b"\0" + whole[-999:]):
        path.write_bytes(damaged)
        with pytest.raises(InvalidInput, match=r"data_batch_3 must have the md5 sum \w+, got \w+: it is damaged"):
            Cifar10().load(cifar10.parent)
    path.write_bytes(whole)
    assert len(Cifar10().load(cifar10.parent).train) == 18


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1, 2], "must hold plain data, it holds no dictionary but list"),
        ({b"labels": [1]}, "must hold 'data', rows of 3072 bytes"),
        ({b"data": np.zeros((1, 3072)), b"labels": [1]}, "must hold plain data, it holds an array that is not of bytes"),
        ({b"data": np.zeros((1, 3000), np.uint8), b"labels": [1]}, "must hold 'data', rows of 3072 bytes"),
        ({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1]}, r"must hold 'labels', one in 0..9 for each of 2 images"),
        ({b"data": np.zeros((1, 3072), np.uint8), b"labels": [10]}, r"must hold 'labels', one in 0..9 for each of 1 images"),
    ],
)
def test_content_that_is_no_batch(content, message, cifar10, monkeypatch):
    (cifar10 / "test_batch").write_bytes(python2_pickle(content))
    monkeypatch.setitem(Cifar10.files, "test_batch", md5(cifar10 / "test_batch"))
    with pytest.raises(InvalidInput, match=message):
        Cifar10().load(cifar10.parent)


def test_the_root_is_the_environments_or_a_folder_here(cifar10, monkeypatch):
    monkeypatch.setenv("RANKMIXUP_DATA", str(cifar10.parent))
    assert len(Cifar10().load().test) == 3
    monkeypatch.delenv("RANKMIXUP_DATA")
    monkeypatch.chdir(cifar10.parent)
    with pytest.raises(InvalidInput, match="cifar10 must have data/cifar-10-batches-py/data_batch_1"):
        Cifar10().load()


@pytest.mark.data
@pytest.mark.filterwarnings("ignore:dtype")  # torchvision's own reading of the old files
def test_the_real_cifar10():
    if "RANKMIXUP_DATA" not in os.environ:
        pytest.skip("RANKMIXUP_DATA names no folder of data")
    root = Path(os.environ["RANKMIXUP_DATA"])
    data = Cifar10().load(root)
    assert (len(data.train), len(data.val), len(data.test)) == (45_000, 5_000, 10_000)
    x, y = everything(data)
    for train, part in ((True, slice(50_000)), (False, slice(50_000, None))):
        theirs = torchvision.datasets.CIFAR10(root, train=train)
        np.testing.assert_array_equal(x[part].permute(0, 2, 3, 1).numpy(), theirs.data)
        assert y[part].tolist() == theirs.targets
    assert tuple(theirs.classes) == data.class_names
    assert not torch.equal(torch.bincount(data.val.y), torch.full((10,), 500))  # not stratified

    tailed = Cifar10(imbalance=100).load(root)
    assert tailed.published_counts == (5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50)
    assert tailed.class_counts.tolist() == [4500, 2698, 1617, 970, 581, 349, 209, 126, 75, 45]
    assert torch.equal(tailed.test.x, data.test.x)


@pytest.fixture
def ten_of_each(tmp_path, monkeypatch):
    """Five batches of twenty images, two of each class, and their sums in the place of the published ones."""
    folder = tmp_path / "cifar-10-batches-py"
    for number in range(1, 6):
        write_cifar_batch(folder / f"data_batch_{number}", noise(20, 3, 32, 32, seed=number), 2 * list(range(10)))
    write_cifar_batch(folder / "test_batch", noise(3, 3, 32, 32, seed=6), [7, 8, 9])
    (folder / "batches.meta").write_bytes(python2_pickle({b"label_names": NAMES}))
    monkeypatch.setattr(Cifar10, "files", {name: md5(folder / name) for name in Cifar10.files})
    return tmp_path


def test_a_part_of_the_training_images_has_as_many_of_each_class(ten_of_each):
    whole = Cifar10().load(ten_of_each)
    parts = [Cifar10(train_size=size).load(ten_of_each) for size in (20, 20, 43)]
    assert parts[0].class_counts.tolist() == 10 * [2]
    assert parts[2].class_counts.tolist() == 3 * [5] + 7 * [4]
    kept = [set(part.train.index.tolist()) for part in parts]
    assert kept[0] == kept[1] < kept[2] < set(whole.train.index.tolist())
    assert all(torch.equal(part.val.index, whole.val.index) and torch.equal(part.test.x, whole.test.x) for part in parts)
    few = Cifar10(val_size=1).load(ten_of_each)
    assert (few.val.y.tolist(), len(few.train)) == ([0], 90)
    with pytest.raises(InvalidInput, match="train_size must leave every class enough images, 90 are there, got 100"):
        Cifar10(train_size=100).load(ten_of_each)
    with pytest.raises(InvalidInput, match="val_size must be at least 0, got -1"):
        Cifar10(val_size=-1)


def test_shrunken_images_are_means_of_four_pixels(ten_of_each):
    whole, small = Cifar10().load(ten_of_each), Cifar10(shrink=2, augment="none").load(ten_of_each)
    expected = whole.train.x.double().unflatten(2, (16, 2)).unflatten(4, (16, 2)).mean(dim=(3, 5))
    assert (small.train.x.double() - expected).abs().max() <= 0.5
    assert small.train.x.shape == (90, 3, 16, 16)
    assert (small.view.image_size, small.view.augment, small.view.flip) == (16, "none", False)
    assert Cifar10(shrink=2).load(ten_of_each).view.padding == 2


@pytest.mark.parametrize("names", [None, [b"cat"], [1, 2], [b"cat", None]])
def test_names_of_classes_that_are_none(names, cifar10, monkeypatch):
    (cifar10 / "batches.meta").write_bytes(python2_pickle({b"label_names": names}))
    monkeypatch.setitem(Cifar10.files, "batches.meta", md5(cifar10 / "batches.meta"))
    with pytest.raises(InvalidInput, match=r"batches.meta must hold 'label_names', a list of at least 2 names"):
        Cifar10().load(cifar10.parent)
