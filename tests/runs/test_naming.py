"""What runs are called: by method and seed, by the settings in which they differ, never by an id."""

import re

import pytest

from rankmixup.runs import Optimisation, Run
from rankmixup.runs.naming import model_names

OTHER = Optimisation(epochs=7)


def names(*runs: Run, each: bool = False) -> list[str]:
    found = model_names(dict(enumerate(runs)), each=each)
    return [found.get(place, "") for place in range(len(runs))]


@pytest.mark.parametrize(
    ("runs", "expected", "single"),
    [
        ([Run("ce")], ["ce, seed 0"], ["ce, seed 0"]),
        ([Run("ce"), Run("mbls")], ["ce, seed 0", "mbls, seed 0"], None),
        ([Run("ce", seed=2), Run("mbls"), Run("ce", seed=1)], ["ce", "mbls, seed 0", "ce"], ["ce, seed 2", "mbls, seed 0", "ce, seed 1"]),
        # Other settings, but no other name: method and seed say enough.
        ([Run("ce"), Run("ce", seed=1, optimisation=OTHER)], ["ce, seed 0", "ce, seed 1"], None),
        ([Run("ce"), Run("ce", optimisation=OTHER)], ["ce (epochs=30), seed 0", "ce (epochs=7), seed 0"], None),
        ([Run("ce"), Run("ce", "cifar10", model="resnet8")], ["ce (data=digits), seed 0", "ce (data=cifar10), seed 0"], None),
        ([Run("ce"), Run("ce", model="mlp")], ["ce (model=resnet8), seed 0", "ce (model=mlp), seed 0"], None),
        # "ce, seed 0" could mean either.
        (
            [Run("ce"), Run("ce", seed=1), Run("ce", optimisation=OTHER)],
            ["ce (epochs=30)", "ce (epochs=30)", "ce (epochs=7), seed 0"],
            ["ce (epochs=30), seed 0", "ce (epochs=30), seed 1", "ce (epochs=7), seed 0"],
        ),
        # Nothing tells identical runs from each other.
        ([Run("ce"), Run("ce"), Run("ce", seed=1)], ["", "", "ce, seed 1"], None),
    ],
)
def test_names_say_what_sets_models_apart(runs, expected, single):
    assert names(*runs) == expected
    assert names(*runs, each=True) == (single or expected)
    assert not any(re.search("[0-9a-f]{12}", name) for name in expected)


def test_settings_name_pools_of_seeds():
    runs = [Run(method, seed=seed, optimisation=optimisation) for method in ("ce",) for optimisation in (None, OTHER) for seed in (0, 1)]
    assert names(*runs) == ["ce (epochs=30)"] * 2 + ["ce (epochs=7)"] * 2
    assert names(*runs, each=True) == [f"ce (epochs={epochs}), seed {seed}" for epochs in (30, 7) for seed in (0, 1)]


def test_folders_of_photographs_are_named_by_their_ends(tmp_path):
    from tests.deploy.conftest import make_images

    runs = [Run("ce", f"folder:{make_images(tmp_path / name, 6, seed=seed)}") for seed, name in enumerate(("cats", "dogs"))]
    assert names(*runs) == ["ce (data.path=cats), seed 0", "ce (data.path=dogs), seed 0"]
