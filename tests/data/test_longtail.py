import dataclasses
from pathlib import Path

import pytest
import torch

from rankmixup.data import Dataset, Digits, Split, View
from rankmixup.data.base import ImageFiles
from rankmixup.data.splits import long_tail_counts, long_tailed
from rankmixup.errors import InvalidInput


@pytest.mark.parametrize(
    ("largest", "classes", "imbalance", "total"),
    [(5000, 10, 100, 12406), (5000, 10, 10, 20431), (500, 100, 100, 10847), (500, 100, 10, 19573)],
)
def test_totals_are_the_published_ones(largest, classes, imbalance, total):
    assert sum(long_tail_counts(largest, classes, imbalance)) == total


def balanced(per_class: int, num_classes: int, *, val_from_train: bool = True, files: bool = False) -> Dataset:
    """As many training samples of each class, a tenth of them for validation; sample n has the pixel n."""
    size = per_class * num_classes
    y = torch.arange(size) % num_classes

    def split(where: torch.Tensor) -> Split:
        x = ImageFiles(Path("root"), tuple(f"{n}.png" for n in where.tolist())) if files else where.view(-1, 1, 1, 1).to(torch.uint8)
        return Split(x, y[where], where)

    everything = torch.arange(size)
    names = tuple(f"class {label}" for label in range(num_classes))
    view = View(1, (0.0,), (1.0,))
    train, val = everything[everything % 10 != 3], everything[everything % 10 == 3]
    return Dataset(split(train), split(val), split(everything[:num_classes]), names, view, val_from_train=val_from_train)


def test_the_profile_is_cut_before_validation_is_taken():
    data = balanced(20, 3)
    tailed = long_tailed(data, 20)
    assert tailed.published_counts == (20, 4, 1)
    assert tailed.class_counts.tolist() == [18, 3, 1]
    assert torch.bincount(tailed.val.y, minlength=3).tolist() == [2, 1, 0]  # a tenth, at least one, never the last
    for split in (tailed.train, tailed.val):
        assert torch.equal(split.y, split.index % 3)
        assert torch.equal(split.x.flatten().long(), split.index)
    assert set(tailed.train.index.tolist()).isdisjoint(tailed.val.index.tolist())
    assert tailed.test is data.test
    again = long_tailed(data, 20)
    assert torch.equal(again.train.index, tailed.train.index)
    assert torch.equal(again.val.index, tailed.val.index)


def test_files_are_gathered_like_images():
    data = balanced(20, 3, files=True)
    tailed = long_tailed(data, 20)
    assert tailed.train.x.names == tuple(f"{n}.png" for n in tailed.train.index.tolist())
    assert torch.equal(tailed.train.index, long_tailed(balanced(20, 3), 20).train.index)


def test_the_releases_protocol_validates_on_test_samples():
    data = balanced(20, 3)
    tailed = long_tailed(data, 20, "release")
    assert tailed.val is data.test
    assert tailed.class_counts.tolist() == list(tailed.published_counts) == [20, 4, 1]


def test_other_validation_samples_stay():
    whole, tailed = Digits().load(), Digits(imbalance=10).load()
    assert tailed.class_counts.tolist() == list(tailed.published_counts) == long_tail_counts(int(whole.class_counts.min()), 10, 10)
    assert set(tailed.train.index.tolist()) < set(whole.train.index.tolist())
    for split in ("val", "test"):
        assert torch.equal(getattr(whole, split).x, getattr(tailed, split).x)
    kept = dict(zip(whole.train.index.tolist(), whole.train.y.tolist(), strict=True))
    assert [kept[index] for index in tailed.train.index.tolist()] == tailed.train.y.tolist()


def test_the_largest_class_has_what_every_class_can_fill():
    data = balanced(20, 3)
    fewer = dataclasses.replace(data, train=data.train[data.train.y.argsort()[:-8]])
    assert long_tailed(fewer, 1.001).published_counts == (12, 11, 11)


def test_bad_input():
    with pytest.raises(InvalidInput, match=r"imbalance must be at least 1, got 0.5"):
        Digits(imbalance=0.5)
    with pytest.raises(InvalidInput, match=r"imbalance must leave the rarest class a sample, so be at most 20, got 21"):
        long_tailed(balanced(20, 3), 21)
