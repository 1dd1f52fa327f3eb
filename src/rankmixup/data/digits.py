"""scikit-learn's embedded handwritten digits, made hard enough that cross-entropy becomes overconfident."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from rankmixup import random
from rankmixup.data.base import Dataset, DataSource, Split, register
from rankmixup.data.view import View
from rankmixup.errors import require


@register("digits")
@dataclass(frozen=True)
class Digits(DataSource):
    """1,797 handwritten digits of 8x8 pixels, embedded in scikit-learn, with noise on the pixels.

    Without noise the digits are so easy that no network is visibly miscalibrated. With noise this strong, cross-entropy
    overfits and its ECE is far above its noise floor; with fewer training images, accuracies would differ too much from seed
    to seed. The splits are stratified and, like the noise, always the same.
    """

    image_size = 8
    train_size: int = 700
    """Training images; 400 more are for validation, the rest for testing."""
    noise: float = 0.9
    """Standard deviation of Gaussian noise on each pixel, in units of the clean pixels' standard deviation."""

    def check(self) -> None:
        super().check()
        require(10 <= self.train_size <= 1300, f"train_size must lie in 10..1300, got {self.train_size}")
        require(self.noise >= 0, f"noise must be at least 0, got {self.noise}")

    def read(self, root: Path) -> Dataset:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

        digits = load_digits()
        train, rest = train_test_split(np.arange(len(digits.target)), train_size=self.train_size, random_state=0, stratify=digits.target)
        val, test = train_test_split(rest, train_size=400, random_state=0, stratify=digits.target[rest])

        images = torch.from_numpy(digits.images).float().unsqueeze(1)
        images = (images - images.mean()) / images.std()
        images += self.noise * torch.randn(images.shape, generator=random.stream(0, "digits", "noise"))
        labels = torch.from_numpy(digits.target).long()

        every = Split(images, labels, torch.arange(len(labels)))
        train, val, test = (every[torch.from_numpy(np.sort(part))] for part in (train, val, test))
        return Dataset(train, val, test, tuple(str(name) for name in digits.target_names), View(8, (0.0,), (1.0,), values="floats"))

    read_outline = read
