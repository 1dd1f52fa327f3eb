"""Second opinions: naive loops written from the paper, and what several test files share.

The loops use Python floats and nothing of the library. The networks are as small as the statement they serve allows.
"""

import contextlib
from collections.abc import Iterator

import jaxtyping
import torch
from torch import Tensor, nn

from rankmixup import random


@contextlib.contextmanager
def unchecked() -> Iterator[None]:
    """The library as users have it: annotations are not enforced, so that its own errors are what is met."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)


class ConvNet(nn.Module):
    """Two stages, average pooling, a linear head; images [B, 1, 6, 6] to 3 logits."""

    def __init__(self, norm: bool = True):
        super().__init__()
        with random.global_seed(0, "ConvNet"):
            self.layer1 = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4) if norm else nn.Identity(), nn.Tanh())
            self.layer2 = nn.Sequential(nn.Conv2d(4, 5, 3), nn.BatchNorm2d(5) if norm else nn.Identity(), nn.Tanh())
            self.pool = nn.AdaptiveAvgPool2d(1)
            self.fc = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.pool(self.layer2(self.layer1(x))).flatten(1))


class Spy(nn.Module):
    """Flattens its inputs to logits and remembers every batch that it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x)
        return x.flatten(1)


def images(size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A batch for `ConvNet`."""
    return torch.randn(size, 1, 6, 6, generator=random.stream(0, "images", size)).to(dtype)
