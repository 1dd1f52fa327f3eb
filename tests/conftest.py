"""Shapes in annotations are enforced in every test."""

import pytest
from jaxtyping import install_import_hook

import tests.typechecker  # noqa: F401 - the hook names it

# Before anything imports the library, so that every annotated function is checked.
_hook = install_import_hook("rankmixup", "tests.typechecker.check")

import hypothesis  # noqa: E402
import torch  # noqa: E402

from rankmixup import random  # noqa: E402

# The tensors of tests are small: a second thread costs more than it brings, and much more on a busy machine.
torch.set_num_threads(1)
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
