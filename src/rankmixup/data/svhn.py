"""Street View House Numbers, cropped digits, from MATLAB files."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from rankmixup.data.base import Dataset, DataSource, View, register
from rankmixup.data.cifar import MEAN, STD
from rankmixup.data.download import Remote, fetch, verify
from rankmixup.data.splits import consecutive, tenth_held_out
from rankmixup.errors import InvalidInput, require
from rankmixup.files import reason, require_fits

__all__ = ["Svhn"]


@register("svhn")
@dataclass(frozen=True)
class Svhn(DataSource):
    """SVHN: 99,289 house-number digits of 32x32 pixels; a tenth of the 73,257 training images is for validation.

    Its "extra" images are not used. Training images are cropped at random but not mirrored: a mirrored digit is none.
    The files lie in the data root or in its folder `svhn`.
    """

    train_file: ClassVar[Remote] = Remote("http://ufldl.stanford.edu/housenumbers/train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373")
    test_file: ClassVar[Remote] = Remote("http://ufldl.stanford.edu/housenumbers/test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3")

    @property
    def image_size(self) -> int:
        return 32

    def download(self, root: Path) -> None:
        for remote in (self.train_file, self.test_file):
            fetch(remote, self._folder(root))

    def read(self, root: Path) -> Dataset:
        parts = []
        for remote in (self.train_file, self.test_file):
            path = self._folder(root) / remote.name
            verify(path, remote.md5, self.name)
            parts.append(_read_mat(path))
        (train_x, train_y), (test_x, test_y) = parts
        index, sizes = tenth_held_out(len(train_y), len(test_y), self.name)
        splits = consecutive(torch.cat([train_x, test_x])[index], torch.cat([train_y, test_y])[index], index, sizes)
        return Dataset(*splits, tuple("0123456789"), View(self.image_size, MEAN, STD, augment="crop"), val_from_train=True)

    def _folder(self, root: Path) -> Path:
        # torchvision has the files wherever its root points to.
        return root if (root / self.train_file.name).exists() else root / "svhn"


def _read_mat(path: Path) -> tuple[UInt8[Tensor, "N 3 32 32"], Int[Tensor, " N"]]:
    from scipy.io import loadmat, whosmat

    try:
        # First what the headers say, which takes no memory; of two of one name, loadmat reads the first.
        kinds = {name: (shape, kind) for name, shape, kind in reversed(whosmat(path))}
        shape, kind = kinds.get("X", ((), ""))
        require(kind == "uint8" and len(shape) == 4 and shape[:3] == (32, 32, 3), f"{path} must hold 'X', bytes of shape [32, 32, 3, N]")
        labels = f"{path} must hold 'y', a label in 1..10 for each image"
        require("y" in kinds and math.prod(kinds["y"][0]) == shape[3] and kinds["y"][1] in ("uint8", "double"), labels)
        require_fits(path, math.prod(shape) + 8 * shape[3])
        content = loadmat(path, variable_names=("X", "y"))
        x, y = content["X"], content["y"]
    except InvalidInput:
        raise
    # A damaged file makes the reader fail in many ways.
    except Exception as error:
        raise InvalidInput(f"{path} must be a whole MATLAB file, it cannot be read ({reason(error)})") from error
    require(bool(np.isin(y, np.arange(1, 11)).all()), labels)
    # The digit 0 has the label 10.
    return torch.from_numpy(np.ascontiguousarray(x.transpose(3, 0, 1, 2))).permute(0, 3, 1, 2), torch.from_numpy(
        y.reshape(-1).astype(np.int64) % 10
    )
