"""He et al.'s residual networks for small images: ResNet-8, 20 and 32, with shortcuts that have no parameters."""

from torch import Tensor, nn
from torch.nn import functional as F

from rankmixup.models.registry import register
from rankmixup.models.resnet import BasicBlock, ResNet


class _Shortcut(nn.Module):
    """Option A of He et al.: every other pixel where `stride` is 2, and zeros for the new channels, half of them on each side."""

    def __init__(self, in_channels: int, channels: int, stride: int):
        super().__init__()
        self.stride, self.extra = stride, channels - in_channels

    def forward(self, x: Tensor) -> Tensor:
        if self.stride == 1:
            return x
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.extra // 2, self.extra - self.extra // 2))


class _Block(BasicBlock):
    make_shortcut = _Shortcut


class SmallResNet(ResNet):
    """Three stages of 16, 32 and 64 channels, global average pooling, one linear layer; any image size."""

    def __init__(self, blocks: int, num_classes: int, in_channels: int):
        super().__init__(_Block, 3 * (blocks,), (16, 16, 32, 64), pool=1, he_init=False, num_classes=num_classes, in_channels=in_channels)
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(module.weight)


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
