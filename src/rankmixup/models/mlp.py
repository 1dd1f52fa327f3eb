"""A small multi-layer perceptron: no convolution, no BatchNorm, trains in seconds."""

import torch
from torch import Tensor, nn

from rankmixup.models.registry import register


class MLP(nn.Module):
    """Two hidden layers of 128 units over flattened inputs."""

    stages = ("hidden1", "hidden2")

    def __init__(self, features: int, num_classes: int, width: int = 128):
        super().__init__()
        self.hidden1 = nn.Linear(features, width)
        self.hidden2 = nn.Linear(width, width)
        self.fc = nn.Linear(width, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.hidden1(x.flatten(1)))
        return self.fc(torch.relu(self.hidden2(x)))


@register("mlp")
def mlp(*, num_classes: int, image_size: int, in_channels: int) -> MLP:
    """Perceptron with two hidden layers of 128 units."""
    return MLP(in_channels * image_size**2, num_classes)
