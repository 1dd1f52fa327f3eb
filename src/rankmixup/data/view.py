"""How samples become a network's input."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class View:
    """How images become a network's input, (bytes / 255 - mean) / std or (floats - mean) / std, and what is added in training."""

    image_size: int
    """Height and width of the input."""
    mean: tuple[float, ...]
    """Mean of each channel. Its length is the number of channels."""
    std: tuple[float, ...]
    """Standard deviation of each channel."""
    augment: Literal["none", "crop", "resized-crop"] = "none"
    """crop: a random crop of the image padded with `padding` zeros; resized-crop: ImageNet's, of random area and aspect ratio."""
    padding: int = 4
    """Zeros around the image before a random crop, added before normalisation."""
    flip: bool = False
    """Whether training images are mirrored at random."""
    values: Literal["bytes", "floats"] = "bytes"
    """What images hold. Floats that are shown to a network of bytes are taken as its input, as they are."""
    shape: tuple[int, ...] = ()
    """Shape of an input that is no square image; `(D,)` is a row of a table, for which image_size is 1 and D is in_channels."""

    @property
    def in_channels(self) -> int:
        """Number of colour channels, or of columns of a table."""
        return len(self.mean)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input of the network."""
        return self.shape or (self.in_channels, self.image_size, self.image_size)

    @property
    def plain(self) -> bool:
        """Whether floats are the network's input as they are."""
        return self.values == "bytes" or (not any(self.mean) and set(self.std) == {1.0})
