"""Arrays of an npz file as samples: images of bytes, images of floats, or the rows of a table."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankmixup.data.base import Images
from rankmixup.errors import InvalidInput, require
from rankmixup.files import read_npz

_CHANNELS = (1, 3)
_AT_ONCE = 4096

Moments = tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and standard deviation of each channel; of bytes, of values in 0..1."""


def read_arrays(path: Path, *, content: bool = True) -> dict[str, Tensor]:
    """Samples by the name of their array, `x` alone, or `x_train` with or without the others.

    They are bytes [N, C, S, S], floats [N, C, S, S] or floats [N, D]; without their `content` they are on torch's meta device.
    """
    arrays = read_npz(path, optional=("x", "x_train", "x_val", "x_test"), content=content)
    samples = {name: _channels_first(f"{name!r} of {path}", array, content) for name, array in arrays.items()}
    rule, found = "samples 'x', or 'x_train' and optionally 'x_val' and 'x_test'", ", ".join(samples) or "none of them"
    require(list(samples) == ["x"] or ("x_train" in samples and "x" not in samples), f"{path} must hold {rule}, got {found}")
    shapes = {tuple(each.shape[1:]) for each in samples.values()}
    require(len(shapes) == 1, f"{path} must hold samples of one size, got {sorted(shapes)}")
    kinds = {"bytes" if each.dtype == torch.uint8 else "floats" for each in samples.values()}
    require(len(kinds) == 1, f"{path} must hold samples of one kind, got bytes and floats")
    wide = any(each.dtype == torch.float64 for each in samples.values())
    return {name: each.double() if wide else each for name, each in samples.items()}


def _channels_first(name: str, array: NDArray[Any], content: bool) -> Tensor:
    got, kind = f"got shape {list(array.shape)}", array.dtype.kind
    shaped = array.ndim in (2, 3, 4) and array.size > 0
    require(shaped, f"{name} must be a table [N, D] or images [N, H, W], [N, H, W, C] or [N, C, H, W], {got}")
    allowed = array.dtype == np.uint8 or kind == "f" or (kind in "iub" and array.ndim == 2)
    require(allowed, f"{name} must hold bytes (uint8, 0 to 255) or floats, or be a table of numbers, got {array.dtype}")
    images_of_bytes = array.dtype == np.uint8 and array.ndim > 2
    dtype = np.uint8 if images_of_bytes else np.float64 if array.dtype.itemsize >= (8 if kind == "f" else 4) else np.float32
    if content:
        if kind == "f":
            require_finite(name, array)
        x = torch.from_numpy(array.astype(dtype, copy=False))
    else:
        x = torch.empty(array.shape, dtype=torch.from_numpy(np.zeros(1, dtype)).dtype, device="meta")
    if x.ndim == 2:
        return x
    if x.ndim == 3:
        x = x.unsqueeze(1)
    elif x.shape[-1] in _CHANNELS if images_of_bytes else x.shape[2] != x.shape[3]:
        x = x.permute(0, 3, 1, 2)
    channels, square = not images_of_bytes or x.shape[1] in _CHANNELS, x.shape[2] == x.shape[3]
    require(channels and square, f"{name} must hold square images{' of 1 or 3 channels' if images_of_bytes else ''}, {got}")
    return x


def require_finite(name: str, array: NDArray[Any]) -> None:
    """Raise `InvalidInput` with the place and the value of the first number that is not finite."""
    for start in range(0, len(array), _AT_ONCE):
        part = array[start : start + _AT_ONCE]
        with np.errstate(over="ignore"):
            finite = np.isfinite(part.astype(np.float32))  # what float32 cannot hold is infinite to a network
        if not finite.all():
            place = np.argwhere(~finite)[0]
            where = [start + int(place[0]), *place[1:].tolist()]
            raise InvalidInput(f"{name} must hold finite numbers that float32 can hold, got {part[tuple(place)]} at {where}")


def moments(x: Images) -> Moments:
    """Mean and standard deviation of each channel, or of each column of a table; where all values are the same, the latter is 1."""
    assert isinstance(x, Tensor)
    if x.is_meta:
        return (0.0,) * x.shape[1], (1.0,) * x.shape[1]
    if x.is_floating_point():
        channels = [channel.double() for channel in x.unbind(1)]
        # Compared and not computed: rounding would leave a little to divide by.
        same = [channel.flatten()[0].item() if channel.min() == channel.max() else None for channel in channels]
        pairs = zip(channels, same, strict=True)
        means = [(channel.mean().item(), channel.std(correction=0).item()) if one is None else (one, 1.0) for channel, one in pairs]
        return tuple(mean for mean, _ in means), tuple(std for _, std in means)
    # From counts of the 256 values: no copy in floats, and exact.
    counts = torch.stack([torch.bincount(channel.flatten(), minlength=256) for channel in x.unbind(1)]).double()
    weights, values = counts / counts.sum(1, keepdim=True), torch.arange(256).double() / 255
    mean = weights @ values
    std = (weights * (values - mean.unsqueeze(1)).square()).sum(1).sqrt()
    # Images of one colour have nothing to scale.
    return tuple(mean.tolist()), tuple(torch.where(std > 0, std, 1.0).tolist())
