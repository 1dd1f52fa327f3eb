"""Street View House Numbers, cropped digits, from MATLAB files."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from rankmixup.data.base import Dataset, DataSource, register
from rankmixup.data.cifar import MEAN, STD
from rankmixup.data.download import PUBLISHED, Remote, fetch, verify
from rankmixup.data.splits import published_splits
from rankmixup.data.view import View
from rankmixup.errors import require
from rankmixup.files import readable, require_fits


@register("svhn")
@dataclass(frozen=True)
class Svhn(DataSource):
    """SVHN: 99,289 house-number digits of 32x32 pixels; a tenth of the 73,257 training images is for validation.

    Its "extra" images are not used. Training images are cropped at random but not mirrored, since mirrored digits are not
    digits. The files are in the data root or in its folder `svhn`.
    """

    image_size = 32
    url: ClassVar[str] = "http://ufldl.stanford.edu/housenumbers"
    files: ClassVar[dict[str, str]] = PUBLISHED["svhn"]
    """Names and md5 sums."""

    @classmethod
    def location(cls, root: Path) -> Path:
        # torchvision has the files wherever its root points to.
        first = next(iter(cls.files))
        return root / first if (root / first).exists() else root / "svhn" / first

    def download(self, root: Path) -> None:
        for name, md5 in self.files.items():
            fetch(Remote(f"{self.url}/{name}", md5), self.location(root).parent)

    def read(self, root: Path) -> Dataset:
        for name, md5 in self.files.items():
            verify(self.location(root).with_name(name), md5, self.name)
        train, test = (_read_mat(self.location(root).with_name(name)) for name in self.files)
        view = View(32, MEAN, STD, augment="crop")
        return Dataset(*published_splits(train, test, self.name), tuple("0123456789"), view, val_from_train=True)


def _read_mat(path: Path) -> tuple[UInt8[Tensor, "N 3 32 32"], Int[Tensor, " N"]]:
    from scipy.io import loadmat, whosmat

    labels = f"{path} must hold 'y', a label in 1..10 for each image"
    with readable(path, "a whole MATLAB file", Exception):
        # First the headers, which take no memory; of two arrays with the same name, loadmat reads the first.
        kinds = {name: (shape, kind) for name, shape, kind in reversed(whosmat(path))}
        shape, kind = kinds.get("X", ((), ""))
        require(kind == "uint8" and len(shape) == 4 and shape[:3] == (32, 32, 3), f"{path} must hold 'X', bytes of shape [32, 32, 3, N]")
        require("y" in kinds and math.prod(kinds["y"][0]) == shape[3] and kinds["y"][1] in ("uint8", "double"), labels)
        require_fits(path, math.prod(shape) + 8 * shape[3])
        content = loadmat(path, variable_names=("X", "y"))
        x, y = content["X"], content["y"]
    require(bool(np.isin(y, np.arange(1, 11)).all()), labels)
    pixels = torch.from_numpy(np.ascontiguousarray(x.transpose(3, 0, 1, 2))).permute(0, 3, 1, 2)
    return pixels, torch.from_numpy(y.reshape(-1).astype(np.int64) % 10)  # the digit 0 has the label 10
