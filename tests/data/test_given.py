"""Data that a program gives are known by their content."""

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from rankmixup.data import DataSource, Digits, GivenData
from rankmixup.data.base import Samples
from rankmixup.data.given import given_data
from rankmixup.data.overlap import shared_images
from rankmixup.errors import InvalidInput


def arrays(size=12, seed=0, shape=(3,)):
    return np.random.default_rng(seed).normal(size=(size, *shape)).astype(np.float32), np.arange(size) % 2


def three(**changes):
    parts = {"train": arrays(), "val": arrays(6, 1), "test": arrays(8, 2)} | changes
    return tuple(parts.values())


def given(data, known_as="", **like):
    return given_data(data, Digits(**like), known_as)


class Made:
    """Map-style, without torch."""

    classes = ("no", "yes")

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, place):
        return self.x[place], int(self.y[place])


class Shaken(Made):
    """Draws from a generator that is not torch's."""

    rng = np.random.default_rng(0)

    def __getitem__(self, place):
        return self.x[place] + self.rng.normal(size=3).astype(np.float32), int(self.y[place])


def test_arrays_are_taken_as_they_are():
    source, (x, y) = given(three(), imbalance=1), arrays()
    data = source.load()
    assert (source.num_classes, source.sizes, source.image_size) == (2, (12, 6, 8), 1)
    assert torch.equal(data.train.x, torch.from_numpy(x))
    assert torch.equal(data.train.y, torch.from_numpy(y))
    assert data.view.plain
    assert (data.view.input_shape, data.view.values) == ((3,), "floats")
    assert torch.cat([split.index for split in (data.train, data.val, data.test)]).tolist() == list(range(26))
    assert DataSource.from_dict(source.to_dict()) == source


def test_the_fingerprint_follows_the_content():
    fingerprint = given(three()).fingerprint
    tensors = tuple((torch.from_numpy(x), torch.from_numpy(y)) for x, y in three())
    same = [three(), tensors, tuple(TensorDataset(*pair) for pair in tensors)]
    assert {given(each).fingerprint for each in same} == {fingerprint}
    x, y = arrays()
    others = [three(train=arrays(seed=5)), three(train=(x, 1 - y)), three(train=arrays(14)), (three()[0], three()[2], three()[1])]
    made = tuple(Made(*pair) for pair in three())
    others += [made, (Made(x, 1 - y), *made[1:]), (Made(x + 1, y), *made[1:])]
    assert len({given(each).fingerprint for each in others} | {fingerprint}) == len(others) + 1
    assert given(tuple(Made(*pair) for pair in three())) == given(made)


def test_samples_that_never_come_out_the_same_are_known_by_a_name():
    """Nothing else tells them from others with the same labels, and a run could never be continued."""
    shaken, scaled = (tuple(Shaken(x * factor, y) for x, y in three()) for factor in (1, 1000))
    with pytest.raises(InvalidInput, match=r"'train' must have samples that are the same .*, or rm.train a name= for"):
        given(shaken)
    assert given(shaken, "weak") == given(shaken, "weak")
    assert given(shaken, "weak") != given(scaled, "strong")
    assert DataSource.from_dict(given(shaken, "weak").to_dict()) == given(shaken, "weak")


class Targets(Made):
    """Its labels can be had without its inputs."""

    @property
    def targets(self):
        return self.y


@pytest.mark.parametrize(("kind", "whole"), [(Made, True), (Targets, False)])
def test_all_samples_are_looked_at_where_they_are_made_anyway(kind, whole):
    (x, y), more = arrays(200), three()[1:]
    changed = x.copy()
    changed[1] += 1  # not the first, the last, or one of those between that are looked at
    one, other = given((kind(x, y), *more)), given((kind(changed, y), *more))
    assert (one != other, one.whole) == (whole, whole)


def test_data_sets_are_made_when_needed():
    data = given(tuple(Made(*pair) for pair in three()), imbalance=3).load()
    assert isinstance(data.train.x, Samples)
    assert data.class_names == ("no", "yes")
    assert data.class_counts.tolist() == [6, 2]
    assert shared_images(data) is None


@pytest.mark.parametrize(
    ("shape", "size", "expected"), [((2, 4, 4), 4, (2, 4, 4)), ((2, 4, 5), 1, (2, 4, 5)), ((7, 2), 1, (7, 2)), ((7,), 1, (7,))]
)
def test_inputs_of_any_shape(shape, size, expected):
    view = given((arrays(shape=shape), arrays(shape=shape), arrays(shape=shape))).load().view
    assert (view.image_size, view.in_channels, view.input_shape) == (size, shape[0], expected)


def test_labels_are_sorted_and_named():
    x, y = arrays()
    names = np.array(["late", "early"])[y]
    data = given(((x, names), (x, names[::-1]), (x[:2], ["late", "late"]))).load()
    assert data.class_names == ("early", "late")
    assert data.test.y.tolist() == [1, 1]


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter([])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (arrays(), r"data must be three data sets or pairs \(x, y\) of arrays, for training, validation and testing, got"),
        (three()[:2], r"data must be three data sets"),
        (three(val=Stream()), r"'val' must be a data set with __len__ and __getitem__, got"),
        (three(val={0: 1}), r"'val' must be a data set with __len__ and __getitem__"),
        (three(val=[]), r"'val' must hold at least one sample, got none"),
        (three(val=arrays(shape=(4,))), r"data must hold inputs of one shape, got \[3\] and \[4\]"),
        (three(val=(arrays()[0], np.zeros(3))), r"y of 'val' must hold an integer or text for each of 12 samples, got float64"),
        (three(val=(arrays()[0], np.full(12, 9))), r"labels of 'val' must hold labels that labels of 'train' has too, .* for 9"),
        (three(val=(np.full((2, 3), np.nan), [0, 1])), r"x of 'val' must hold finite numbers .* got nan at \[0, 0\]"),
        (three(val=(np.zeros((2, 3), int), [0, 1])), r"x of 'val' must hold floats or bytes \(uint8\), got int64"),
        (three(val=(np.zeros((0, 3)), [])), r"x of 'val' must hold samples of at least one dimension, got shape \[0, 3\]"),
    ],
)
def test_what_is_no_data_is_refused(data, message):
    with pytest.raises(InvalidInput, match=message):
        given(data)


def test_they_cannot_be_read_again():
    source = given(three())
    with pytest.raises(InvalidInput, match=r"data 'own' must be given again, to rm.train\(run, data=\(train, val, test\)\)"):
        DataSource.from_dict(source.to_dict()).load()
    with pytest.raises(InvalidInput, match=r"data 'own' must be given to rm.train\(run, data=\(train, val, test\)\).* got only its name"):
        GivenData()
