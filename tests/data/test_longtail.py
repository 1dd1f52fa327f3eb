import pytest
import torch

from rankmixup.data import Digits
from rankmixup.data.longtail import long_tail_counts
from rankmixup.errors import InvalidInput


@pytest.mark.parametrize(
    ("largest", "classes", "imbalance", "total"), [(5000, 10, 10, 20431), (500, 100, 100, 10847), (500, 100, 10, 19573)]
)
def test_totals_are_the_published_ones(largest, classes, imbalance, total):
    assert sum(long_tail_counts(largest, classes, imbalance)) == total


def test_only_the_training_split_changes():
    whole, tailed = Digits().load(), Digits(imbalance=10).load()
    assert tailed.class_counts.tolist() == long_tail_counts(int(whole.class_counts.min()), 10, 10)
    assert set(tailed.train.source.tolist()) < set(whole.train.source.tolist())
    for split in ("val", "test"):
        assert torch.equal(getattr(whole, split).x, getattr(tailed, split).x)
    kept = dict(zip(whole.train.source.tolist(), whole.train.y.tolist(), strict=True))
    assert [kept[source] for source in tailed.train.source.tolist()] == tailed.train.y.tolist()


def test_bad_input():
    with pytest.raises(InvalidInput, match=r"imbalance must be at least 1, got 0.5"):
        Digits(imbalance=0.5)
