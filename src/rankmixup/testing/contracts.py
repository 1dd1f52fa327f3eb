"""What everything that takes part in a run promises."""

import dataclasses
import functools
import hashlib
import json
import pickle
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from rankmixup.config import Configured
from rankmixup.registry import first_line


class ConfiguredContract:
    """Promises of everything that takes part in a run, the fixture `subject`: it can be written down, read back and told from others."""

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
        """The same on every machine, in every process; fields that take no part in comparisons are left out."""
        left_out = {field.name for field in dataclasses.fields(subject) if not field.compare}  # type: ignore[arg-type]
        content = {key: value for key, value in subject.to_dict().items() if key not in left_out}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
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
