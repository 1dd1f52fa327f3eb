"""The order of an epoch."""

import pytest
import torch

from rankmixup.data import Dataset, Split, View, steps_per_epoch
from rankmixup.data.batches import epoch_order, epoch_size


def dataset(*counts: int) -> Dataset:
    y = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    split = Split(torch.zeros(len(y), 1, 1, 1), y, torch.arange(len(y)))
    return Dataset(split, split, split, tuple(map(str, range(len(counts)))), View(1, (0.0,), (1.0,)))


def test_a_shuffled_epoch_sees_every_sample_once():
    order = epoch_order(dataset(7, 3, 5), seed=0, epoch=0)
    assert sorted(order.tolist()) == list(range(15))
    assert order.tolist() != epoch_order(dataset(7, 3, 5), seed=0, epoch=1).tolist()
    assert order.tolist() != epoch_order(dataset(7, 3, 5), seed=1, epoch=0).tolist()


def test_class_balanced_epochs_take_four_of_a_class_in_turn():
    data = dataset(40, 8, 2)
    order = epoch_order(data, seed=0, epoch=0, sampling="class-balanced")
    assert len(order) == epoch_size(data, "class-balanced") == 120
    turns = data.train.y[order].reshape(30, 4)
    # Four samples of one class together, and every class once in three turns.
    assert (turns == turns[:, :1]).all()
    assert all(sorted(three) == [0, 1, 2] for three in turns[:, 0].reshape(10, 3).tolist())
    # Within a class all samples come before one comes again: 40 draws of each class.
    counts = torch.bincount(order, minlength=50)
    assert counts.tolist() == [1] * 40 + [5] * 8 + [20] * 2
    assert len({tuple(three) for three in turns[:, 0].reshape(10, 3).tolist()}) > 1


def test_a_class_without_samples_has_no_turn():
    order = epoch_order(dataset(4, 0, 4), seed=0, epoch=0, sampling="class-balanced")
    assert len(order) == 12
    assert set(order.tolist()) == set(range(8))


@pytest.mark.parametrize(("batch", "world", "steps"), [(5, 1, 3), (4, 1, 4), (4, 3, 4), (7, 2, 2), (50, 1, 1)])
def test_a_last_batch_too_small_for_all_processes_is_left_out(batch, world, steps):
    assert steps_per_epoch(dataset(7, 3, 5), batch, world_size=world) == steps


def test_steps_of_a_class_balanced_epoch():
    # As for CIFAR10-LT in the paper's release: 50,000 draws, 391 steps.
    assert steps_per_epoch(dataset(500, 5), 128, sampling="class-balanced") == 8
