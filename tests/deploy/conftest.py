"""A network of three classes of coloured squares, trained once."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import rankmixup as rm
from rankmixup.runs import StoredRun

SIZE = 12
COLOURS = ("red", "green", "blue")


def make_images(folder: Path, count: int, seed: int = 0, size: int = SIZE, colours: tuple[str, ...] = COLOURS) -> Path:
    """A folder for each colour with images in which it is the brightest, and noise that confuses some."""
    rng = np.random.default_rng(seed)
    for label, name in enumerate(colours):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = rng.integers(0, 200, (size, size, 3), dtype=np.uint8)
            pixels[..., label] = np.minimum(255, pixels[..., label] + rng.integers(0, 60))
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


@pytest.fixture(scope="module", autouse=True)
def any_temperature():
    """What is fitted to the six validation samples of these networks is applied, although it harms: the tests are about what follows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rankmixup.posthoc.base._MANY", 0)
        yield


@pytest.fixture(scope="session")
def stored(tmp_path_factory) -> StoredRun:
    folder = tmp_path_factory.mktemp("deploy")
    make_images(folder / "images", 30)
    optimisation = rm.Optimisation(epochs=4, batch_size=16, lr=0.02, milestones=())
    return rm.train(rm.Run("ce", data=f"folder:{folder / 'images'}", optimisation=optimisation), runs=folder / "runs")


@pytest.fixture(scope="session")
def stored_mlp(stored, tmp_path_factory) -> StoredRun:
    """A network whose graph is small, for what does not depend on the network."""
    optimisation = rm.Optimisation(epochs=2, batch_size=16, lr=0.02, milestones=())
    run = rm.Run("ce", data=stored.run.data, model="mlp", optimisation=optimisation)
    return rm.train(run, runs=tmp_path_factory.mktemp("mlp"))


@pytest.fixture(scope="session")
def stored_two(tmp_path_factory) -> StoredRun:
    """A network of two of the classes."""
    folder = tmp_path_factory.mktemp("deploy-two")
    make_images(folder / "images", 30, colours=COLOURS[:2])
    optimisation = rm.Optimisation(epochs=4, batch_size=16, lr=0.02, milestones=())
    return rm.train(rm.Run("ce", data=f"folder:{folder / 'images'}", optimisation=optimisation), runs=folder / "runs")


@pytest.fixture
def new_images(tmp_path) -> Path:
    return make_images(tmp_path / "new", 4, seed=1)
