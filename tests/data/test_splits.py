import torch
from hypothesis import given
from hypothesis import strategies as st

from rankmixup.data.splits import consecutive, stratified_hold_out, tenth_held_out


@given(size=st.integers(2, 200), test_size=st.integers(1, 5))
def test_what_remains_and_what_is_held_out_are_everything_once(size, test_size):
    index, sizes = tenth_held_out(size, test_size, "set")
    assert sizes == [size - max(1, size // 10), max(1, size // 10), test_size]
    assert sorted(index.tolist()) == list(range(size + test_size))
    for part in index.split(sizes):
        assert part.tolist() == sorted(part.tolist())


@given(labels=st.lists(st.integers(0, 3), min_size=1, max_size=60), counts=st.lists(st.integers(0, 8), min_size=4, max_size=4))
def test_each_class_gives_as_many_as_it_should(labels, counts):
    y = torch.tensor(labels)
    rest, held = stratified_hold_out(y, counts, "set")
    had = torch.bincount(y, minlength=4).tolist()
    assert torch.bincount(y[held], minlength=4).tolist() == [min(count, has) for count, has in zip(counts, had, strict=True)]
    assert sorted([*rest.tolist(), *held.tolist()]) == list(range(len(labels)))
    assert rest.tolist() == sorted(rest.tolist())


def test_the_same_ones_every_time_and_others_for_other_data_sets():
    y = torch.arange(1000) % 10
    assert torch.equal(tenth_held_out(1000, 1, "one")[0], tenth_held_out(1000, 1, "one")[0])
    assert not torch.equal(tenth_held_out(1000, 1, "one")[0], tenth_held_out(1000, 1, "two")[0])
    one, two = (stratified_hold_out(y, [10] * 10, name)[1] for name in ("one", "two"))
    assert torch.equal(one, stratified_hold_out(y, [10] * 10, "one")[1])
    assert not torch.equal(one, two)


def test_cifars_sizes():
    index, sizes = tenth_held_out(50_000, 10_000, "cifar10")
    assert sizes == [45_000, 5_000, 10_000]
    assert sorted(index.tolist()) == list(range(60_000))
    assert index[50_000:].tolist() == list(range(50_000, 60_000))
    assert tenth_held_out(3, 1, "small")[1] == [2, 1, 1]


def test_consecutive_splits_share_one_store():
    x, y, index = torch.arange(6).view(6, 1, 1, 1), torch.arange(6), torch.arange(6) + 10
    train, val, test = consecutive(x, y, index, [3, 1, 2])
    assert [split.y.tolist() for split in (train, val, test)] == [[0, 1, 2], [3], [4, 5]]
    assert test.index.tolist() == [14, 15]
    assert {split.x.untyped_storage().data_ptr() for split in (train, val, test)} == {x.untyped_storage().data_ptr()}
