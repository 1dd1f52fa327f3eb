"""What the contracts share: promises of everything that takes part in a run, a small network with batches, and two processes."""

import dataclasses
import functools
import hashlib
import json
import pickle
import random
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from torch import Tensor, distributed, nn

from rankmixup.config import Configured
from rankmixup.random import global_seed, stream
from rankmixup.registry import first_line
from rankmixup.types import Batch

T = TypeVar("T")


def _hashed(subject: Configured) -> dict[str, Any]:
    """JSON data of a configuration and of those inside it, without fields that are not compared, or added later and unset."""
    fields = dataclasses.fields(subject)  # type: ignore[arg-type]
    unset = {field.name for field in fields if field.metadata.get("added") and getattr(subject, field.name) == field.default}
    left_out = {field.name for field in fields if not field.compare} | unset
    content = {key: value for key, value in subject.to_dict().items() if key not in left_out}
    inner = {key: value for key, value in vars(subject).items() if key in content and isinstance(value, Configured)}
    return content | {key: _hashed(value) for key, value in inner.items()}


class ConfiguredContract:
    """What every part of a run (the fixture `subject`) must be able to do: be saved, be read back and be compared with others."""

    @pytest.fixture(autouse=True)
    def one_thread(self, request: pytest.FixtureRequest) -> None:
        """Models this small only wait for a second thread, a hundred times as long when the machine is busy."""
        # No `yield`: where an import hook wraps this function, pytest would not see a generator and never run it.
        request.addfinalizer(functools.partial(torch.set_num_threads, torch.get_num_threads()))  # noqa: PT021
        torch.set_num_threads(1)

    def test_has_a_one_line_card(self, subject: Configured) -> None:
        """`rankmixup list` shows it."""
        line = first_line(type(subject))
        assert line, "the class needs a docstring"
        assert not line.startswith(f"{type(subject).__name__}("), "the docstring must be more than the one a dataclass writes"

    def test_pickles(self, subject: Configured) -> None:
        """Workers and launchers send it to other processes."""
        assert pickle.loads(pickle.dumps(subject)) == subject  # noqa: S301 - made on this line

    def test_json_round_trip(self, subject: Configured) -> None:
        """`run.json` must give back an equal object."""
        revived = type(subject).from_dict(json.loads(json.dumps(subject.to_dict())))
        assert revived == subject
        assert type(revived) is type(subject)
        assert revived.content_hash() == subject.content_hash()

    def test_hash_is_that_of_the_canonical_json(self, subject: Configured) -> None:
        """The same on every machine and in every process; without fields that are not compared, or added later and unset."""
        text = json.dumps(_hashed(subject), sort_keys=True, separators=(",", ":"))
        assert subject.content_hash() == hashlib.sha256(text.encode()).hexdigest()


def assert_no_global_randomness(draw: Callable[[], Tensor]) -> None:
    """`draw` must leave torch's and numpy's global generators as they are and give the same whatever the state of Python's.

    Python's own may move, since the type checker of a test run draws from it.
    """
    before, python = _torch_and_numpy(), random.getstate()
    results = []
    for seed in range(2):
        random.seed(seed)
        results.append(draw())
    random.setstate(python)
    assert torch.equal(*results), "drawn from Python's global generator"
    assert _torch_and_numpy() == before, "drawn from torch's or numpy's global generator"


def _torch_and_numpy() -> str:
    return repr((torch.get_rng_state().tolist(), np.random.get_state()))  # noqa: NPY002 - read, not drawn from


class TinyNet(nn.Module):
    """Two convolutional stages with BatchNorm and a linear layer, for images `[B, 3, H, W]`."""

    stages = ("layer1", "layer2")

    def __init__(self, num_classes: int = 4, *, seed: int = 0):
        super().__init__()
        with global_seed(seed, "tiny-net"):
            # No bias in front of BatchNorm and no ReLU: every parameter has a gradient, whatever the weights.
            self.layer1 = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.GELU())
            self.layer2 = nn.Sequential(nn.Conv2d(6, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.GELU())
            self.head = nn.Linear(8, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits `[B, num_classes]`."""
        return self.head(self.layer2(self.layer1(x)).mean(dim=(2, 3)))


def toy_batch(size: int = 8, num_classes: int = 4, *, seed: int = 0) -> Batch:
    """Random 6x6 images with random labels, at the first `size` positions of a training set."""
    rng = stream(seed, "toy-batch")
    x = torch.randn(size, 3, 6, 6, generator=rng)
    y = torch.randint(num_classes, (size,), generator=rng)
    return Batch(x, y, torch.arange(size))


def two_processes(function: Callable[..., T], *args: Any) -> tuple[T, T]:
    """`function(rank, *args)` in two fresh processes joined by gloo; gives back both results or raises the first error.

    The function must live in a module that the processes can import.
    """
    # Pickled by hand, since a tensor that multiprocessing pickles is shared memory that must outlive it.
    job = pickle.dumps((function, args))
    # A file, not a port, for the processes to meet at: nobody else can take it.
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(_joined, rank, (Path(folder) / "store").as_uri(), job) for rank in range(2)]
        for future in as_completed(futures):
            future.result()  # In order of completion: the other's error only says that this one has left.
        first, second = (pickle.loads(future.result()) for future in futures)  # noqa: S301 - from processes started here
        return first, second


def _joined(rank: int, meeting: str, job: bytes) -> bytes:
    function, args = pickle.loads(job)  # noqa: S301 - from the process that started this one
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2, timeout=timedelta(minutes=1))
    try:
        return pickle.dumps(function(rank, *args))
    finally:
        distributed.destroy_process_group()
