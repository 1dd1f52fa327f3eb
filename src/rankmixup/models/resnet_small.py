"""He et al.'s residual networks for small images: ResNet-8, 20 and 32, with shortcuts that have no parameters."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rankmixup.models.registry import register

__all__ = ["SmallResNet", "resnet8", "resnet20", "resnet32"]


class _Block(nn.Module):
    def __init__(self, in_channels: int, channels: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.stride, self.extra = stride, channels - in_channels

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        if self.stride > 1:
            # "Option A": every other pixel, and zeros for the channels that are new, half of them on each side.
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.extra // 2, self.extra - self.extra // 2))
        return torch.relu(out + x)


class SmallResNet(nn.Module):
    """Three stages of 16, 32 and 64 channels, global average pooling, one linear layer; any image size."""

    stages = ("stage1", "stage2", "stage3")

    def __init__(self, blocks: int, num_classes: int, in_channels: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, 16, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(16)
        self.stage1 = self._stage(16, 16, blocks)
        self.stage2 = self._stage(16, 32, blocks)
        self.stage3 = self._stage(32, 64, blocks)
        self.fc = nn.Linear(64, num_classes)
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(module.weight)

    @staticmethod
    def _stage(in_channels: int, channels: int, blocks: int) -> nn.Sequential:
        first = _Block(in_channels, channels, stride=1 if in_channels == channels else 2)
        return nn.Sequential(first, *[_Block(channels, channels, 1) for _ in range(blocks - 1)])

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.bn(self.conv(x)))
        x = self.stage3(self.stage2(self.stage1(x)))
        return self.fc(x.mean(dim=(2, 3)))


@register("resnet8")
def resnet8(*, num_classes: int, image_size: int, in_channels: int) -> SmallResNet:
    """ResNet-8 for small images, 75 thousand parameters."""
    return SmallResNet(1, num_classes, in_channels)


@register("resnet20")
def resnet20(*, num_classes: int, image_size: int, in_channels: int) -> SmallResNet:
    """ResNet-20 for small images, 270 thousand parameters."""
    return SmallResNet(3, num_classes, in_channels)


@register("resnet32")
def resnet32(*, num_classes: int, image_size: int, in_channels: int) -> SmallResNet:
    """ResNet-32 for small images, 464 thousand parameters; the paper's for long-tailed CIFAR."""
    return SmallResNet(5, num_classes, in_channels)
