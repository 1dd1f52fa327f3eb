"""The paper's residual networks: ResNet-50 and 101, and WRN-26-10, for CIFAR and for Tiny-ImageNet; ResNet-18 beside them."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rankmixup.models.libraries import library_model
from rankmixup.models.registry import register


def _shortcut(in_channels: int, channels: int, stride: int) -> nn.Module:
    if stride == 1 and in_channels == channels:
        return nn.Sequential()
    return nn.Sequential(nn.Conv2d(in_channels, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions; activation after each and after the sum."""

    expansion = 1
    make_shortcut = staticmethod(_shortcut)

    def __init__(self, in_channels: int, width: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.shortcut = self.make_shortcut(in_channels, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


class _Bottleneck(nn.Module):
    """1x1, 3x3 (which has the stride) and 1x1, the last four times as wide."""

    expansion = 4

    def __init__(self, in_channels: int, width: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.shortcut = _shortcut(in_channels, 4 * width, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = torch.relu(self.bn1(self.conv1(x)))
        out = torch.relu(self.bn2(self.conv2(out)))
        return torch.relu(self.bn3(self.conv3(out)) + self.shortcut(x))


Block = type[BasicBlock] | type[_Bottleneck]


class ResNet(nn.Module):
    """A 3x3 convolution without pooling, stages that halve the image from the second on, average pooling, one linear layer.

    `widths` are the channels of the first convolution and of each stage. `pool` is the side of the pooled map: 1 (CIFAR) or 2
    (Tiny-ImageNet). The release pools CIFAR over 4x4 (WRN: 8x8) pixels, which is the whole map at 32 pixels; here it is the
    whole map at any size.
    """

    def __init__(
        self, block: Block, blocks: Sequence[int], widths: Sequence[int], *, pool: int, he_init: bool, num_classes: int, in_channels: int
    ):
        super().__init__()
        channels, *widths_of_stages = widths
        self.conv = nn.Conv2d(in_channels, channels, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(channels)
        self.stages = tuple(f"stage{number}" for number in range(1, len(blocks) + 1))
        for name, count, width in zip(self.stages, blocks, widths_of_stages, strict=True):
            stage = nn.Sequential()
            for number in range(count):
                stage.append(block(channels, width, stride=2 if number == 0 and name != "stage1" else 1))
                channels = width * block.expansion
            self.add_module(name, stage)
        self.pool = pool
        self.fc = nn.Linear(channels * pool**2, num_classes)
        if he_init:
            for module in self.modules():
                if isinstance(module, nn.Conv2d):
                    nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.bn(self.conv(x)))
        for stage in self.stages:
            x = self.get_submodule(stage)(x)
        return self.fc(F.adaptive_avg_pool2d(x, self.pool).flatten(1))


def _resnet(name: str, block: Block, blocks: tuple[int, ...], variant: str, **sizes: int) -> nn.Module:
    if variant == "imagenet":
        return library_model(f"torchvision/{name}", **sizes)
    classes, channels, tiny = sizes["num_classes"], sizes["in_channels"], variant == "tiny"
    # The release keeps PyTorch's initial weights in its CIFAR networks and takes He's in those for Tiny-ImageNet.
    widths = (64, 64, 128, 256, 512)
    return ResNet(block, blocks, widths, pool=2 if tiny else 1, he_init=tiny, num_classes=classes, in_channels=channels)


@register("resnet18", "cifar", "tiny", "imagenet")
def resnet18(*, variant: str, **sizes: int) -> nn.Module:
    """ResNet-18, for images of any size, 11 million parameters."""
    return _resnet("resnet18", BasicBlock, (2, 2, 2, 2), variant, **sizes)


@register("resnet50", "cifar", "tiny", "imagenet")
def resnet50(*, variant: str, **sizes: int) -> nn.Module:
    """ResNet-50, the paper's main network, for images of any size, 24 million parameters."""
    return _resnet("resnet50", _Bottleneck, (3, 4, 6, 3), variant, **sizes)


@register("resnet101", "cifar", "tiny", "imagenet")
def resnet101(*, variant: str, **sizes: int) -> nn.Module:
    """ResNet-101, for images of any size, 43 million parameters."""
    return _resnet("resnet101", _Bottleneck, (3, 4, 23, 3), variant, **sizes)


@register("wrn-26-10", "cifar", "tiny")
def wrn_26_10(*, variant: str, num_classes: int, image_size: int, in_channels: int) -> ResNet:
    """Wide ResNet-26-10 as in the paper (activation after the sum), for images up to 64 pixels, 36 million parameters."""
    blocks, widths, pool = (4, 4, 4), (16, 160, 320, 640), 2 if variant == "tiny" else 1
    return ResNet(BasicBlock, blocks, widths, pool=pool, he_init=True, num_classes=num_classes, in_channels=in_channels)
