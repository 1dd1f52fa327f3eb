"""Randomness as an argument: named, independent, savable streams.

Nothing else in the library may touch a global random generator; torch's own is touched here alone, and only to give
weight initialisation and dropout (which accept no generator) a seed.
"""

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from rankmixup.errors import require_whole

_turn = threading.RLock()
"""Of the thread whose seed torch's global generators have: there is one set of them for all threads."""


def stream(seed: int, *names: str | int) -> torch.Generator:
    """A CPU generator for the stream called `names` under `seed`; different names give independent streams.

    >>> a, b = stream(0, "mixing", 0), stream(0, "mixing", 1)
    >>> a.initial_seed() == stream(0, "mixing", 0).initial_seed(), a.initial_seed() == b.initial_seed()
    (True, False)
    """
    digest = hashlib.sha256(json.dumps([require_whole("seed", seed), *names]).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)


def beta(alpha: float, shape: Sequence[int], rng: torch.Generator) -> Tensor:
    """Draws from Beta(alpha, alpha), float32, in [0, 1].

    torch's sampler takes no generator and underflows for tiny alpha; numpy's does neither, so each call seeds one from `rng`.
    """
    seed = torch.randint(2**63 - 1, (), generator=rng).item()
    draws = np.random.Generator(np.random.Philox(int(seed))).beta(alpha, alpha, size=tuple(shape))
    return torch.from_numpy(np.asarray(draws, dtype=np.float32))


def permutations(count: int, size: int, rng: torch.Generator) -> Tensor:
    """`count` independent random permutations of `range(size)`, as rows; fixed points are allowed."""
    return torch.stack([torch.randperm(size, generator=rng) for _ in range(count)])


@contextlib.contextmanager
def global_seed(seed: int, *names: str | int, gpus: bool = True) -> Iterator[None]:
    """Run the body with torch's global generators, of the CPU and of every GPU, seeded by the named stream, then put them back.

    Threads take turns. With `gpus=False` that of the CPU alone, for worker processes: what was forked must neither touch a GPU nor wait
    for threads of the process that it was forked from.
    """
    with _turn if gpus else contextlib.nullcontext(), torch.random.fork_rng(devices=range(torch.cuda.device_count()) if gpus else ()):
        (torch.manual_seed if gpus else torch.default_generator.manual_seed)(stream(seed, *names).initial_seed())
        yield


def global_state(device: torch.device) -> list[Tensor]:
    """Where torch's global generators stand: the CPU's and, if it is a GPU, that of `device`."""
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]


def set_global_state(states: Sequence[Tensor], device: torch.device) -> None:
    """Put torch's global generators where `global_state` found them; those of a GPU only if it was one and `device` is."""
    torch.set_rng_state(states[0])
    if device.type == "cuda" and len(states) > 1:
        torch.cuda.set_rng_state(states[1], device)
