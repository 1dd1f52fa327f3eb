"""CutMix: a rectangle of each image is replaced by the same rectangle of another."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankmixup.errors import require, require_whole, shown
from rankmixup.mixers.base import InputMixer, register
from rankmixup.ops import PlainArray, check_indices, check_integers, check_tensor, check_unit


def cutmix(
    x: Float[Tensor, "B C H W"] | PlainArray, box: Int[Tensor, "*M B 4"] | PlainArray, partner: Int[Tensor, "*M B"] | PlainArray
) -> tuple[Float[Tensor, "*M B C H W"], Float[Tensor, "*M B"]]:
    """Paste `box` of each sample's partner into it; returns new images and lambda, the share of area that stays.

    A box is `(top, bottom, left, right)`, its ends excluded; what lies outside the image does not count. The inputs are not
    written to. Partners must lie in 0..B - 1 and the ends of a box be in order, which is checked on the CPU alone: on a GPU it
    would make every step wait.

    >>> x = torch.stack([torch.zeros(1, 2, 2), torch.ones(1, 2, 2)])
    >>> mixed, lam = cutmix(x, torch.tensor([[0, 1, 0, 2]] * 2), torch.tensor([1, 0]))
    >>> mixed[0, 0].tolist(), lam.tolist()
    ([[1.0, 1.0], [0.0, 0.0]], [0.5, 0.5])
    """
    x = _check_images(x)
    height, width = x.shape[-2:]
    partner, box = check_indices("partner", partner, len(x), x), check_integers("box", box, x)
    require(partner.shape[-1:] == x.shape[:1], f"partner must have a shape that ends in B = {len(x)}, got {list(partner.shape)}")
    require(box.shape == (*partner.shape, 4), f"box must have shape {[*partner.shape, 4]}, got {list(box.shape)}")
    top, bottom, left, right = box.unsqueeze(-1).unbind(-2)  # each [*M, B, 1]
    ordered = box.device.type != "cpu" or bool(((top <= bottom) & (left <= right)).all())
    require(ordered, "box must be (top, bottom, left, right) with top <= bottom and left <= right, got others")
    rows, columns = torch.arange(height, device=x.device), torch.arange(width, device=x.device)
    in_rows, in_columns = (rows >= top) & (rows < bottom), (columns >= left) & (columns < right)
    inside = (in_rows.unsqueeze(-1) & in_columns.unsqueeze(-2)).unsqueeze(-3)
    lam = 1 - inside.sum(dim=(-3, -2, -1)) / (height * width)
    return torch.where(inside, x[partner], x), lam


def cutmix_boxes(
    lam: Float[Tensor, "*M"] | PlainArray, centre: Float[Tensor, "*M 2"] | PlainArray, size: Sequence[int]
) -> Int[Tensor, "*M 4"]:
    """Boxes of about `1 - lam` of the area around `centre` (fractions of height and width), cut off at the border."""
    lam = check_unit("lam", lam)
    centre = check_unit("centre", centre, lam)
    require(centre.shape == (*lam.shape, 2), f"centre must have shape {[*lam.shape, 2]}, got {list(centre.shape)}")
    require(isinstance(size, Sequence) and len(size) == 2, f"size must be a height and a width, got {shown(size)}")
    ends = []
    for axis, extent in enumerate(size):
        require_whole("size", extent, least=1)
        length = (extent * (1 - lam).sqrt()).long()
        middle = (centre[..., axis] * extent).long()
        ends += [(middle - length // 2).clamp(0, extent), (middle + length // 2).clamp(0, extent)]
    return torch.stack(ends, dim=-1)


@register("cutmix")
@dataclass(frozen=True)
class CutMix(InputMixer):
    """Rectangles pasted from another image; lambda is the area that stays.

    One box for the whole batch in each mix (`lam_mode="batch"`), lambda recomputed from the box as it was cut off.
    **Deviation:** applied to every batch, as the paper's ranking losses need, where CutMix's authors apply it to half of them.
    """

    def check_input(self, shape: tuple[int, ...]) -> None:
        pasted = len(shape) == 3 and shape[1] * shape[2] > 1
        require(pasted, f"mixer 'cutmix' must be given images of more than one pixel, got inputs of shape {list(shape)}")

    def mix(self, x: Tensor, rng: torch.Generator, lam: Tensor, partner: Tensor) -> tuple[Tensor, Tensor]:
        _check_images(x)
        width = 1 if self.lam_mode == "batch" else lam.shape[1]
        centre = torch.rand(lam.shape[0], width, 2, generator=rng).expand(*lam.shape, 2).to(lam.device)
        mixed, lam = cutmix(x, cutmix_boxes(lam, centre, x.shape[2:]), partner)
        return mixed.flatten(0, 1), lam


def _check_images(x: Any) -> Tensor:
    x = check_tensor("x", x)
    require(x.ndim == 4, f"x must hold images [B, C, H, W] for CutMix, got shape {list(x.shape)}")
    return x
