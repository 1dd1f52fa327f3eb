"""Shapes in annotations are enforced in every test."""

import gc
import os

import pytest

from tests import typechecker

# Before anything imports the library, so that every annotated function is checked.
typechecker.install()

import hypothesis  # noqa: E402
import torch  # noqa: E402

from rankmixup import random  # noqa: E402
from rankmixup.training import keep_freed_memory  # noqa: E402

keep_freed_memory()  # as training does; most of the time that tests spent in the system went there
# The tensors of tests are small: a second thread costs more than it brings, and much more on a busy machine.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # for processes that tests start
# Nor does the time that an example takes there say anything. Tests that need more examples say so.
hypothesis.settings.register_profile("patient", deadline=None, max_examples=50)
hypothesis.settings.load_profile("patient")


@pytest.fixture
def rng() -> torch.Generator:
    return random.stream(0, "tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without -m, the markers that need time, processes, data or a browser are left out."""
    if config.option.markexpr:
        return
    extra = {"slow", "dist", "data", "browser"}
    kept, left_out = [], []
    for item in items:
        (left_out if any(mark.name in extra for mark in item.iter_markers()) else kept).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def pytest_collection_finish() -> None:
    """What was collected stays until the end: no collection of garbage need look at it again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """At exit libraries want their objects back, or call them leaked."""
    gc.unfreeze()
