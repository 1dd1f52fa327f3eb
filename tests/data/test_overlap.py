"""What the guards find, flag and refuse."""

import dataclasses

import pytest
import torch

from rankmixup.data import Dataset, ImageFiles, Split, View
from rankmixup.data.overlap import Contents, check_held_out, overlap_sentence, shared_images
from rankmixup.errors import InvalidInput


def split(values: list[int], index: list[int], layout: torch.memory_format = torch.contiguous_format) -> Split:
    x = torch.tensor(values, dtype=torch.uint8).reshape(-1, 1, 1, 1).repeat(1, 3, 2, 2)
    x[:, 1] += 1  # channels differ, so that the order of bytes matters
    return Split(x.contiguous(memory_format=layout), torch.zeros(len(values), dtype=torch.int64), torch.tensor(index))


def dataset(train: Split, val: Split, test: Split) -> Dataset:
    return Dataset(train, val, test, ("a", "b"), View(2, (0.5,) * 3, (0.5,) * 3))


def test_images_of_two_splits_are_found_whatever_their_layout_in_memory():
    found = shared_images(
        dataset(split([1, 2, 3], [0, 1, 2]), split([4, 2], [3, 4], torch.channels_last), split([5, 4, 3, 3], [5, 6, 7, 8]))
    )
    assert found == {"train-val": [4], "train-test": [7, 8], "val-test": [6]}
    assert overlap_sentence(found) == (
        "splits should have no image in common, but of val 1 is in train, of test 2 are in train, of test 1 is in val"
    )


def test_splits_without_common_images_are_not_warned_about():
    found = shared_images(dataset(split([1], [0]), split([2], [1]), split([3], [2])))
    assert found == {"train-val": [], "train-test": [], "val-test": []}
    assert overlap_sentence(found) is None


def test_files_are_compared_by_their_bytes(tmp_path, monkeypatch):
    for name, content in (("a", b"one"), ("b", b"two"), ("c", b"one")):
        (tmp_path / name).write_bytes(content)
    a, b, c = (Split(ImageFiles(tmp_path, (name,)), torch.tensor([0]), torch.tensor([place])) for place, name in enumerate("abc"))
    data = dataset(a, b, c)
    assert shared_images(data) == {"train-val": [], "train-test": [2], "val-test": []}
    monkeypatch.setattr("rankmixup.data.overlap._MOST_FILES", 2)
    assert shared_images(data) is None
    assert overlap_sentence(None) is None


def places(known: Dataset, images, protocol="paper") -> list[str] | None:
    found = Contents.of(known, protocol).places(images)
    return None if found is None else found.tolist()


def test_other_samples_are_found_among_those_that_were_trained_and_validated_on():
    known = dataset(split([1, 2], [0, 1]), split([3], [2]), split([4], [3]))
    others = split([4, 3, 2, 9, 1], [0, 1, 2, 3, 4], torch.channels_last).x
    assert places(known, others) == ["new", "validation", "training", "new", "training"]
    tuned = dataclasses.replace(known, tuning=split([9], [9]))
    assert places(tuned, others) == ["new", "validation", "training", "validation", "training"]
    assert places(known, others, "release") == [
        "new",
        "new",
        "training",
        "new",
        "training",
    ]  # whose validation samples are the test samples


def test_grey_images_are_found_among_those_of_three_equal_colours():
    grey = torch.arange(4, dtype=torch.uint8).view(4, 1, 1, 1).expand(4, 1, 2, 2)
    parts = [Split(x, torch.zeros(len(x), dtype=torch.long), torch.arange(len(x))) for x in (grey[:1], grey[1:2], grey[2:])]
    one = Dataset(*parts, ("a", "b"), View(2, (0.5,), (0.5,)))
    three = dataset(*(dataclasses.replace(part, x=part.x.expand(-1, 3, -1, -1)) for part in parts))
    for known, images in ((one, grey), (one, grey.expand(-1, 3, -1, -1)), (three, grey)):
        assert places(known, images) == ["training", "validation", "new", "new"]


def test_floats_are_compared_in_single_precision():
    x = torch.rand(3, 4, dtype=torch.float64)
    parts = [Split(x[place : place + 1], torch.tensor([0]), torch.tensor([place])) for place in range(3)]
    known = Dataset(*parts, ("a", "b"), View(1, (0.0,) * 4, (1.0,) * 4, values="floats", shape=(4,)))
    assert places(known, x.float()) == ["training", "validation", "new"]


def test_files_are_found_by_their_content(tmp_path):
    for name, content in (("a", b"one"), ("b", b"two"), ("c", b"three"), ("d", b"one")):
        (tmp_path / name).write_bytes(content)
    parts = [Split(ImageFiles(tmp_path, (name,)), torch.tensor([0]), torch.tensor([place])) for place, name in enumerate("abc")]
    known = Dataset(*parts, ("a", "b"), View(80, (0.5,) * 3, (0.5,) * 3))
    assert places(known, ImageFiles(tmp_path, ("d", "c", "b"))) == ["training", "new", "validation"]
    assert places(known, torch.zeros(2, 3, 80, 80, dtype=torch.uint8)) is None


def test_test_samples_are_neither_trained_nor_fitted_on():
    apart = dataset(split([1], [0]), split([2], [1]), split([3], [2]))
    check_held_out(apart, "paper")
    on_test = dataclasses.replace(apart, val=apart.test)
    with pytest.raises(InvalidInput, match="test samples must not be selected and fitted on, but 1 of them are in the split 'val' too"):
        check_held_out(on_test, "paper")
    check_held_out(on_test, "release")
    with pytest.raises(InvalidInput, match="test samples must not be trained on"):
        check_held_out(dataclasses.replace(apart, train=apart.test), "release")
