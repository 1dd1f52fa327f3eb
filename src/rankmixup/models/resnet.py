"""The paper's residual networks: ResNet-50 and 101, and WRN-26-10, for CIFAR and for Tiny-ImageNet; ResNet-18 beside them."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rankmixup.models.libraries import library_model
from rankmixup.models.registry import register

__all__ = ["ResNet", "resnet18", "resnet50", "resnet101", "wrn_26_10"]


class _Basic(nn.Module):
    """Two 3x3 convolutions; activation behind each and behind the sum."""

    expansion = 1

    def __init__(self, in_channels: int, width: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.shortcut = _shortcut(in_channels, width, stride)

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


def _shortcut(in_channels: int, channels: int, stride: int) -> nn.Sequential:
    if stride == 1 and in_channels == channels:
        return nn.Sequential()
    return nn.Sequential(nn.Conv2d(in_channels, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))


class ResNet(nn.Module):
    """A 3x3 convolution without pooling, stages that halve the image from the second on, average pooling, one linear layer.

    `pool` is the side of what is pooled to: 1 (CIFAR) or 2 (Tiny-ImageNet). The release pools CIFAR over 4x4 (WRN: 8x8) pixels,
    which is the whole map at 32 pixels; here it is the whole map at any size.
    """

    def __init__(
        self,
        block: type[_Basic] | type[_Bottleneck],
        blocks: tuple[int, ...],
        widths: tuple[int, ...],
        *,
        stem: int,
        pool: int,
        he_init: bool,
        num_classes: int,
        in_channels: int,
    ):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, stem, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(stem)
        self.stages = tuple(f"stage{number}" for number in range(1, len(blocks) + 1))
        channels = stem
        for name, count, width in zip(self.stages, blocks, widths, strict=True):
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


def _resnet(
    name: str,
    block: type[_Basic] | type[_Bottleneck],
    blocks: tuple[int, ...],
    *,
    variant: str,
    num_classes: int,
    image_size: int,
    in_channels: int,
) -> nn.Module:
    if variant == "imagenet":
        return library_model(f"torchvision/{name}", num_classes=num_classes, image_size=image_size, in_channels=in_channels)
    widths, tiny = (64, 128, 256, 512), variant == "tiny"
    # The release leaves PyTorch's initial weights in its CIFAR networks and takes He's in those for Tiny-ImageNet.
    return ResNet(block, blocks, widths, stem=64, pool=2 if tiny else 1, he_init=tiny, num_classes=num_classes, in_channels=in_channels)


@register("resnet18", "cifar", "tiny", "imagenet")
def resnet18(*, variant: str, num_classes: int, image_size: int, in_channels: int) -> nn.Module:
    """ResNet-18, for images of any size, 11 million parameters."""
    sizes = {"num_classes": num_classes, "image_size": image_size, "in_channels": in_channels}
    return _resnet("resnet18", _Basic, (2, 2, 2, 2), variant=variant, **sizes)


@register("resnet50", "cifar", "tiny", "imagenet")
def resnet50(*, variant: str, num_classes: int, image_size: int, in_channels: int) -> nn.Module:
    """ResNet-50, the paper's main network, for images of any size, 24 million parameters."""
    sizes = {"num_classes": num_classes, "image_size": image_size, "in_channels": in_channels}
    return _resnet("resnet50", _Bottleneck, (3, 4, 6, 3), variant=variant, **sizes)


@register("resnet101", "cifar", "tiny", "imagenet")
def resnet101(*, variant: str, num_classes: int, image_size: int, in_channels: int) -> nn.Module:
    """ResNet-101, for images of any size, 43 million parameters."""
    sizes = {"num_classes": num_classes, "image_size": image_size, "in_channels": in_channels}
    return _resnet("resnet101", _Bottleneck, (3, 4, 23, 3), variant=variant, **sizes)


@register("wrn-26-10", "cifar", "tiny")
def wrn_26_10(*, variant: str, num_classes: int, image_size: int, in_channels: int) -> ResNet:
    """Wide ResNet-26-10 as the paper has it (activation behind the sum), for images up to 64 pixels, 36 million parameters."""
    blocks, widths, pool = (4, 4, 4), (160, 320, 640), 2 if variant == "tiny" else 1
    return ResNet(_Basic, blocks, widths, stem=16, pool=pool, he_init=True, num_classes=num_classes, in_channels=in_channels)
