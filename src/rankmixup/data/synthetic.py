"""Gaussian classes, whose posterior is known, so that the true calibration error can be computed."""

from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup import random
from rankmixup.data.base import Dataset, DataSource, Split, register
from rankmixup.data.view import View
from rankmixup.errors import require

_SIDE = 8


@register("synthetic")
@dataclass(frozen=True)
class Synthetic(DataSource):
    """Gaussian classes with a known posterior, as images of 8x8 pixels.

    Each class has a fixed mean image; a sample is its class's mean plus independent unit Gaussian noise, so that the
    posterior is a softmax of linear functions of the pixels (`posterior_logits`).
    """

    image_size = _SIDE
    num_classes: int = 10
    """Number of classes."""
    separation: float = 2.0
    """Typical distance of a class mean from the origin, in standard deviations of the noise."""
    train_size: int = 500
    """Training samples."""
    val_size: int = 1000
    """Validation samples."""
    test_size: int = 5000
    """Test samples."""

    def check(self) -> None:
        super().check()
        require(self.num_classes >= 2, f"num_classes must be at least 2, got {self.num_classes}")
        require(self.separation > 0, f"separation must be positive, got {self.separation}")
        for name in ("train_size", "val_size", "test_size"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1, got {getattr(self, name)}")

    def means(self) -> Float[Tensor, "K 1 S S"]:
        """The class means."""
        directions = torch.randn(self.num_classes, 1, _SIDE, _SIDE, generator=random.stream(0, "synthetic", "means"))
        return directions * self.separation / _SIDE

    def posterior_logits(self, x: Float[Tensor, "N 1 S S"]) -> Float[Tensor, "N K"]:
        """Logits whose softmax is the true probability of each class."""
        means = self.means().flatten(1).to(x.dtype)
        return x.flatten(1) @ means.T - means.square().sum(dim=1) / 2

    def read(self, root: Path) -> Dataset:
        rng = random.stream(0, "synthetic", "samples")
        sizes = (self.train_size, self.val_size, self.test_size)
        y = torch.randint(self.num_classes, (sum(sizes),), generator=rng)
        x = self.means()[y] + torch.randn(sum(sizes), 1, _SIDE, _SIDE, generator=rng)
        train, val, test = (Split(x[part], y[part], part) for part in torch.arange(sum(sizes)).split(sizes))
        class_names = tuple(f"class {label}" for label in range(self.num_classes))
        return Dataset(train, val, test, class_names, View(_SIDE, (0.0,), (1.0,), values="floats"))

    read_outline = read
