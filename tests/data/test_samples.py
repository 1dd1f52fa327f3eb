"""Samples of a user's own data set are the same for any number of workers and resumptions."""

import pytest
import torch
from torch.utils.data import Subset

from rankmixup.data import Dataset, Split, View, evaluation_batches, training_batches
from rankmixup.data.base import Samples
from rankmixup.data.samples import labels_of, make_sample, network_input, spread
from rankmixup.errors import InvalidInput, WorkFailed


class Noisy(torch.utils.data.Dataset):
    """Rows of their position and of what torch's generator draws."""

    def __init__(self, size=11, labels=lambda place: place % 2):
        self.size, self.labels, self.made = size, labels, 0

    def __len__(self):
        return self.size

    def __getitem__(self, place):
        self.made += 1
        return torch.cat([torch.tensor([float(place)]), torch.rand(2)]), self.labels(place)


class Listed(Noisy):
    @property
    def targets(self):
        return [place % 2 for place in range(self.size)]


def dataset(given) -> Dataset:
    y = torch.arange(len(given)) % 2
    split = Split(Samples(given, torch.arange(len(given)), y), y, torch.arange(len(given)))
    return Dataset(split, split, split, ("a", "b"), View(1, (0.0,) * 3, (1.0,) * 3, values="floats", shape=(3,)))


def batches(**options):
    return [(batch.x, batch.index) for batch in training_batches(dataset(Noisy()), 4, seed=3, **{"epoch": 1, **options})]


def same(one, other):
    return len(one) == len(other) and all(torch.equal(a, b) and torch.equal(c, d) for (a, c), (b, d) in zip(one, other, strict=True))


def test_draws_belong_to_seed_epoch_and_place():
    before = torch.get_rng_state()
    whole = batches()
    assert torch.equal(torch.get_rng_state(), before)
    x, index = torch.cat([x for x, _ in whole]), torch.cat([index for _, index in whole])
    assert torch.equal(x[:, 0].long(), index)
    assert sorted(index.tolist()) == list(range(11))
    assert len(x[:, 1].unique()) == 11
    assert same(batches(), whole)
    assert same(batches(start=1), whole[1:])
    assert not same(batches(epoch=2), whole)
    for rank in (0, 1):
        assert same(batches(rank=rank, world_size=2), [(x[rank::2], index[rank::2]) for x, index in whole])


def test_worker_processes_make_the_same():
    assert same(batches(workers=2), batches(workers=0))


def test_evaluation_makes_each_sample_the_same_every_time():
    data = dataset(Noisy())
    (whole,) = evaluation_batches(data.val, data.view)
    chosen = torch.tensor([7, 2, 2])
    (part,) = evaluation_batches(data.val[chosen], data.view)
    assert torch.equal(part, whole[chosen])
    assert torch.equal(whole[3], make_sample(Noisy(), 3)[0])


def test_labels_come_from_targets_or_from_making_all():
    for given, made in ((Listed(300), 64), (Noisy(300), 364)):
        assert torch.equal(labels_of(given, spread(given))[0], torch.arange(300) % 2)
        assert given.made == made
    assert labels_of(Subset(Listed(9), [1, 2, 5]), [])[0].tolist() == [1, 0, 1]
    wrong = Listed(300, lambda place: 1 - place % 2)  # as with a target_transform
    assert torch.equal(labels_of(wrong, spread(wrong))[0], 1 - torch.arange(300) % 2)


class Broken(Noisy):
    def __init__(self, sample):
        super().__init__()
        self.sample = sample

    def __getitem__(self, place):
        if isinstance(self.sample, Exception):
            raise self.sample
        return self.sample if place == 3 else super().__getitem__(place)


@pytest.mark.parametrize(
    ("sample", "error", "message"),
    [
        (ValueError("no such\nfile"), WorkFailed, r"sample \d+ of Broken could not be made \(ValueError: no such\)"),
        ({"x": 1}, InvalidInput, r"sample 3 of Broken must be a pair of an input and a label, got \{'x': 1\}"),
        ((torch.zeros(3), 0, 1), InvalidInput, r"sample 3 of Broken must be a pair"),
        (({"a": torch.zeros(3)}, 1), InvalidInput, r"the input of sample 3 of Broken must be a tensor or an array .* got \{'a'"),
        (((torch.zeros(3), torch.zeros(3)), 1), InvalidInput, r"the input of sample 3 of Broken must be a tensor or an array"),
        ((torch.zeros(3).long(), 1), InvalidInput, r"must hold floats or bytes \(uint8\), got torch.int64"),
        ((torch.tensor(1.0), 1), InvalidInput, r"must have at least one dimension, got a single number"),
        ((torch.tensor([0, torch.nan, 0]), 1), InvalidInput, r"the input of sample 3 of Broken must be finite"),
        ((torch.zeros(3), 1.0), InvalidInput, r"the label of sample 3 of Broken must be an integer, got 1.0"),
        ((torch.zeros(3), "a"), InvalidInput, r"the label of sample 3 of Broken must be an integer, got 'a'"),
        ((torch.zeros(4), 1), InvalidInput, r"sample 3 of Broken must have the shape of the first, \[3\], got \[4\]"),
        ((torch.zeros(3), 0), InvalidInput, r"sample 3 of Broken must keep its label, 1, got 0"),
    ],
)
def test_broken_samples_are_named(sample, error, message):
    data = dataset(Broken(sample))
    with pytest.raises(error, match=message):
        list(evaluation_batches(data.val, data.view))


def test_a_worker_process_names_them_too():
    data = dataset(Broken((torch.zeros(4), 1)))
    with pytest.raises(WorkFailed, match=r"^sample 3 of Broken must have the shape of the first, \[3\], got \[4\]$"):
        list(evaluation_batches(data.val, data.view, workers=1))


def test_bytes_are_divided_by_255():
    assert network_input("x", torch.tensor([0, 51, 255], dtype=torch.uint8)).tolist() == pytest.approx([0, 0.2, 1])
    assert network_input("x", torch.tensor([1.5], dtype=torch.float64)).dtype == torch.float32
