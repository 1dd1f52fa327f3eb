"""docs/guides/deploy.md, as a newcomer would follow it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rankmixup as rm
from tests.deploy.conftest import make_images

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "guides" / "deploy.md").read_text()


def follow(folder: Path) -> None:
    """Run the commands, then the Python of the page in a fresh process, and compare what they predict."""
    (commands,) = re.findall(r"```bash\n(.*?)```", PAGE, flags=re.DOTALL)
    first, second = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run(["bash", "-euc", commands], cwd=folder, check=True, env=environment, capture_output=True)
    end = "\nimport numpy as np; np.savez('found.npz', a=probabilities, b=served, n=report.n)"
    subprocess.run([sys.executable, "-W", "error", "-c", first + second + end], cwd=folder, check=True, env=environment)
    (run,) = (folder / "runs").iterdir()
    model = rm.load(run)
    expected = model.predict_proba(folder / "new").numpy()
    found = np.load(folder / "found.npz")
    assert np.abs(found["a"] - expected).max() < 1e-6
    assert np.abs(found["b"] - expected).max() < 1e-5
    assert len((folder / "predictions.csv").read_text().splitlines()) == 1 + len(expected)
    assert found["n"] == sum(1 for _ in (folder / "labelled").rglob("*.png"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:temperature calibration is not applied")  # of three validation images
def test_the_page_works_on_coloured_squares(tmp_path):
    make_images(tmp_path / "photos" / "train", 20)
    make_images(tmp_path / "photos" / "val", 40, seed=2)  # a dial is tuned on 100 samples or more
    make_images(tmp_path / "labelled", 5, seed=1)
    shutil.copytree(tmp_path / "labelled" / "red", tmp_path / "new")
    follow(tmp_path)


@pytest.mark.data
@pytest.mark.filterwarnings("ignore:temperature calibration is not applied")  # of a few validation images
def test_the_page_works_on_photos(tmp_path):
    """Five classes of real images; a quarter of them is new."""
    root = Path(os.environ.get("RANKMIXUP_DATA", "")) / "cifar100-ood-2000"
    if not root.is_dir():
        pytest.skip(f"{root} is not there")
    (tmp_path / "new").mkdir()
    for name in ("apple", "bicycle", "castle", "rose", "whale"):
        for number, image in enumerate(sorted((root / name).iterdir())):
            split = ("labelled", "photos/val", "photos/train", "photos/train")[number % 4]
            (tmp_path / split / name).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(image, tmp_path / split / name / image.name)
            if number % 4 == 0:
                shutil.copyfile(image, tmp_path / "new" / ("1.png" if number == 0 and name == "apple" else f"{name}-{image.name}"))
    follow(tmp_path)
