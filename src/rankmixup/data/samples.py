"""Samples of a user's own data set: made when they are needed, each with torch's generator seeded for it alone."""

import hashlib
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankmixup import random
from rankmixup.data.base import Samples
from rankmixup.data.progress import progress
from rankmixup.data.transforms import batches_made
from rankmixup.data.view import View
from rankmixup.errors import InvalidInput, WorkFailed, require, shown
from rankmixup.files import reason
from rankmixup.ops import as_tensor

_EVALUATION = (0, "evaluation")
"""Seed and name of the random stream of samples that are not trained on: they are the same whenever they are made."""
_SPREAD = 64


def network_input(name: str, value: Any) -> Float[Tensor, "..."]:
    """Floats as float32, bytes divided by 255; everything else is refused."""
    arrays = isinstance(value, Tensor | np.ndarray | np.generic)
    require(arrays, f"{name} must be a tensor or an array of floats or bytes, got {shown(value)}")
    x = as_tensor(name, value).detach().cpu()
    if value.dtype in (torch.uint8, np.uint8):
        return x.float() / 255
    require(x.is_floating_point(), f"{name} must hold floats or bytes (uint8), got {value.dtype}")
    require(x.ndim > 0, f"{name} must have at least one dimension, got a single number")
    return x.float()


def make_sample(dataset: Any, position: int, *stream: str | int) -> tuple[Float[Tensor, "..."], int]:
    """Input and label at `position`, made with torch's global generator seeded by `stream`, which is left as it was."""
    name = f"sample {position} of {type(dataset).__name__}"
    seed, *names = stream or (*_EVALUATION, position)
    try:
        with random.global_seed(int(seed), *names, gpus=False):
            sample = dataset[position]
    except Exception as error:  # a user's code can raise any
        raise WorkFailed(f"{name} could not be made ({type(error).__name__}: {reason(error)})") from error
    pair = isinstance(sample, tuple | list) and len(sample) == 2
    require(pair, f"{name} must be a pair of an input and a label, got {shown(sample)}")
    x = network_input(f"the input of {name}", sample[0])
    require(bool(x.isfinite().all()), f"the input of {name} must be finite, got others")
    try:
        return x, operator.index(sample[1])
    except (TypeError, ValueError):
        raise InvalidInput(f"the label of {name} must be an integer, got {shown(sample[1])}") from None


def spread(dataset: Any) -> list[tuple[int, Float[Tensor, "..."], int]]:
    """Position, input and label of at most 64 samples, from the first to the last."""
    places = torch.linspace(0, len(dataset) - 1, min(len(dataset), _SPREAD)).long().unique().tolist()
    return [(place, *make_sample(dataset, place)) for place in places]


def labels_of(dataset: Any, known: Sequence[tuple[int, Tensor, int]]) -> tuple[Int[Tensor, " N"], str, bool]:
    """The label of every sample, a hash of inputs, and whether it is one of all inputs.

    Labels are the attribute `targets` if it agrees with the samples that are `known`, whose inputs are then all that is hashed. Else every
    sample is made.
    """
    targets = _targets(dataset)
    if targets is not None and all(int(targets[place]) == label for place, _, label in known):
        return targets, hash_of(x for _, x, _ in known), len(known) == len(dataset)
    labels = torch.empty(len(dataset), dtype=torch.long)

    def inputs() -> Iterator[Tensor]:
        with progress(f"reading {type(dataset).__name__}", len(dataset)) as advance:
            for place in range(len(dataset)):
                x, labels[place] = make_sample(dataset, place)
                yield x
                advance(1)

    return labels, hash_of(inputs()), True


def hash_of(inputs: Iterable[Tensor]) -> str:
    """Hexadecimal SHA-256 of shapes and values."""
    digest = hashlib.sha256()
    for each in inputs:
        digest.update(str(list(each.shape)).encode() + each.contiguous().numpy().tobytes())
    return digest.hexdigest()


def _targets(dataset: Any) -> Int[Tensor, " N"] | None:
    if isinstance(dataset, torch.utils.data.Subset):
        inner = _targets(dataset.dataset)
        return None if inner is None else inner[torch.as_tensor(dataset.indices)]
    try:
        targets = as_tensor("targets", getattr(dataset, "targets", None))
    except InvalidInput:
        return None
    return targets if targets.dtype == torch.long and targets.shape == (len(dataset),) else None


def inputs_made(
    samples: Samples, view: View, positions: Sequence[Tensor], workers: int | None, places: Sequence[Tensor] = (), *draws: str | int
) -> Iterator[Float[Tensor, "B ..."]]:
    """Inputs for each tensor of `positions`, made by this process, or by as many as `workers`.

    With `draws`, a seed and names of a random stream, samples differ with their places in the epoch's order.
    """
    return batches_made(_Maker(samples, view.input_shape, draws), positions, places, workers or 0)


class _Maker(torch.utils.data.Dataset[Tensor | str]):
    """Makes the samples at some positions, for their places in the epoch's order; perhaps in a worker process."""

    def __init__(self, samples: Samples, shape: tuple[int, ...], draws: tuple[str | int, ...]):
        self.samples, self.shape, self.draws = samples, shape, draws

    def __getitem__(self, wanted: list[tuple[int, int]]) -> Tensor | str:
        try:
            return torch.stack([self._made(*each) for each in wanted])
        except (InvalidInput, WorkFailed) as error:
            if torch.utils.data.get_worker_info() is None:
                raise
            return str(error)  # raised from here, it would arrive wrapped in a traceback

    def _made(self, position: int, place: int) -> Tensor:
        samples = self.samples
        where, expected = int(samples.where[position]), int(samples.labels[position])
        x, label = make_sample(samples.dataset, where, *(*self.draws, place) if self.draws else ())
        name = f"sample {where} of {type(samples.dataset).__name__}"
        require(tuple(x.shape) == self.shape, f"{name} must have the shape of the first, {list(self.shape)}, got {list(x.shape)}")
        require(label == expected, f"{name} must keep its label, {expected}, got {label}")
        return x
