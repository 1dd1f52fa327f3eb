"""Batches for training and for evaluation, the same for any number of processes, workers and resumptions."""

import math
from collections.abc import Iterator
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from rankmixup import random
from rankmixup.data.base import Dataset, ImageFiles, Samples, Split
from rankmixup.data.samples import inputs_made
from rankmixup.data.transforms import Augmentation, decoded, normalise, prepared_bytes
from rankmixup.data.view import View
from rankmixup.errors import require
from rankmixup.types import Batch

Sampling = Literal["shuffle", "class-balanced"]

_TOGETHER = 4
"""Consecutive samples of one class under class-balanced sampling, as in the paper's release."""
_PIXELS = 512 * 64 * 64
"""Most pixels of an evaluation batch, which also has at most 512 images."""


def epoch_size(dataset: Dataset, sampling: Sampling = "shuffle") -> int:
    """Samples in an epoch: all of them once; or, class-balanced, as many for each class as the most frequent one has."""
    return len(dataset.train) if sampling == "shuffle" else int(dataset.class_counts.max()) * dataset.num_classes


def steps_per_epoch(dataset: Dataset, batch_size: int, *, sampling: Sampling = "shuffle", world_size: int = 1) -> int:
    """Steps in an epoch; a last batch too small for every process to get a sample is left out."""
    full, rest = divmod(epoch_size(dataset, sampling), batch_size)
    return full + (rest >= world_size and rest > 0)


def epoch_order(dataset: Dataset, *, seed: int, epoch: int, sampling: Sampling = "shuffle") -> Int[Tensor, " P"]:
    """Positions in the training split, in the order of the epoch."""
    rng = random.stream(seed, "shuffle", epoch)
    if sampling == "shuffle":
        return torch.randperm(len(dataset.train), generator=rng)
    size = epoch_size(dataset, sampling)
    present = dataset.class_counts.nonzero().squeeze(1)
    turns = present[_cycled(len(present), math.ceil(size / _TOGETHER), rng)]
    classes = turns.repeat_interleave(_TOGETHER)[:size]
    order = torch.empty(size, dtype=torch.int64)
    for label in present.tolist():
        members, places = (dataset.train.y == label).nonzero().squeeze(1), (classes == label).nonzero().squeeze(1)
        order[places] = members[_cycled(len(members), len(places), rng)]
    return order


def _cycled(count: int, length: int, rng: torch.Generator) -> Int[Tensor, " L"]:
    """`length` of the numbers below `count`: all of them in a random order, then all again in another."""
    rounds = math.ceil(length / count)
    return random.permutations(rounds, count, rng).flatten()[:length] if rounds else torch.empty(0, dtype=torch.int64)


def training_batches(
    dataset: Dataset,
    batch_size: int,
    *,
    seed: int,
    epoch: int,
    sampling: Sampling = "shuffle",
    rank: int = 0,
    world_size: int = 1,
    device: torch.device | str = "cpu",
    start: int = 0,
    workers: int | None = None,
) -> Iterator[Batch]:
    """The batches of one epoch from step `start` on; each process takes every `world_size`-th sample of a batch.

    Order and augmentation of a sample depend only on seed and epoch. `workers` processes decode images that are files, by default one
    for each processor core, at most 8, or make the samples of a user's own data set, by default none; what is in memory needs none.
    """
    split, view = dataset.train, dataset.view
    order = epoch_order(dataset, seed=seed, epoch=epoch, sampling=sampling)
    steps = range(start, steps_per_epoch(dataset, batch_size, sampling=sampling, world_size=world_size))
    places = [torch.arange(step * batch_size, min((step + 1) * batch_size, len(order)))[rank::world_size] for step in steps]
    indices = [order[each] for each in places]
    if isinstance(split.x, ImageFiles):
        images = decoded(split.x, view, indices, workers, places, seed, "augment", epoch)
        inputs = (normalise(each.to(device), view) for each in images)
    elif isinstance(split.x, Samples):
        inputs = (each.to(device) for each in inputs_made(split.x, view, indices, workers, places, seed, "augment", epoch))
    elif split.x.is_floating_point():
        inputs = (normalise(_taken(split.x, index), view).to(device, non_blocking=True) for index in indices)
    else:
        augment = Augmentation(view, len(order), random.stream(seed, "augment", epoch))
        inputs = (augment(_taken(split.x, index).to(device), each) for index, each in zip(indices, places, strict=True))
    for x, index in zip(inputs, indices, strict=True):
        yield Batch(x, split.y[index].to(device), index.to(device))


def evaluation_batches(
    split: Split,
    view: View,
    *,
    rank: int = 0,
    world_size: int = 1,
    device: torch.device | str = "cpu",
    workers: int | None = None,
    batch_size: int | None = None,
) -> Iterator[Tensor]:
    """Inputs of every `world_size`-th sample, in order and without augmentation; at most 512 in a batch, fewer if they are large.

    Bytes in memory are prepared as image files are, so that any data set can be shown to any network. Images that are prepared already
    must be given as what `normalise` makes of them: floats, which a network of bytes takes as they are.
    """
    expected = view.input_shape
    parts = torch.arange(rank, len(split), world_size).split(batch_size or evaluation_batch_size(view))
    if isinstance(split.x, Samples):
        yield from (each.to(device) for each in inputs_made(split.x, view, parts, workers))
        return
    if isinstance(split.x, Tensor) and split.x.is_floating_point():
        shape = tuple(split.x.shape[1:])
        fits = shape == expected or (len(expected) == 1 and shape == (*expected, 1, 1))  # a row as an image of one pixel
        require(fits, f"images of floats must have the shape that the network takes, {expected}, got {shape}")
        yield from (normalise(_taken(split.x, part).view(-1, *expected), view).to(device) for part in parts)
        return
    takes = view.values == "bytes" or (view.plain and not view.shape and view.in_channels in (1, 3))
    require(takes, f"samples must be floats of shape {expected}, as those that the network was trained on, got images of bytes")
    if isinstance(split.x, ImageFiles):
        yield from (normalise(each.to(device), view) for each in decoded(split.x, view, parts, workers))
    else:
        yield from (normalise(prepared_bytes(_taken(split.x, part), view).to(device), view) for part in parts)


def evaluation_batch_size(view: View) -> int:
    """Samples of an evaluation batch."""
    return min(512, max(1, _PIXELS // math.prod(view.input_shape[1:])))


def _taken(images: Tensor, index: Tensor) -> Tensor:
    return images.index_select(0, index.to(images.device))
