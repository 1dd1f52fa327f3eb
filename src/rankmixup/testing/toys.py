"""A network and batches small enough for thousands of tests."""

import torch
from torch import Tensor, nn

from rankmixup import random
from rankmixup.types import Batch


class TinyNet(nn.Module):
    """Two convolutional stages with BatchNorm and a linear layer, for images `[B, 3, H, W]`."""

    stages = ("layer1", "layer2")

    def __init__(self, num_classes: int = 4, *, seed: int = 0):
        super().__init__()
        with random.global_seed(seed, "tiny-net"):
            # No bias in front of BatchNorm and no ReLU: every parameter has a gradient, whatever the weights.
            self.layer1 = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.GELU())
            self.layer2 = nn.Sequential(nn.Conv2d(6, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.GELU())
            self.head = nn.Linear(8, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits `[B, num_classes]`."""
        return self.head(self.layer2(self.layer1(x)).mean(dim=(2, 3)))


def toy_batch(size: int = 8, num_classes: int = 4, *, seed: int = 0) -> Batch:
    """Random 6x6 images with random labels, at the first `size` positions of a training set."""
    rng = random.stream(seed, "toy-batch")
    x = torch.randn(size, 3, 6, 6, generator=rng)
    y = torch.randint(num_classes, (size,), generator=rng)
    return Batch(x, y, torch.arange(size))
