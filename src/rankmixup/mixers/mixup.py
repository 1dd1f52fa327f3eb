"""Mixup: a convex combination of two inputs, Eq. (6)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankmixup.errors import require
from rankmixup.mixers.base import InputMixer, register
from rankmixup.ops import PlainArray, check_floats, check_indices, check_unit


def mixup(
    x: Float[Tensor, "B ..."] | PlainArray, lam: Float[Tensor, "*M B"] | PlainArray, partner: Int[Tensor, "*M B"] | PlainArray
) -> Float[Tensor, "..."]:
    """`lam * x + (1 - lam) * x[partner]`, Eq. (6), for one mix (`lam` of shape `[B]`) or for M of them (`[M, B]`).

    Lambda must lie in 0..1 and partners in 0..B - 1, which is checked on the CPU alone: on a GPU it would make every step wait.

    >>> x = torch.tensor([[0.0], [1.0]])
    >>> mixup(x, torch.tensor([0.75, 0.75]), torch.tensor([1, 0])).tolist()
    [[0.25], [0.75]]
    """
    x = check_floats("x", x)
    require(x.ndim > 0, "x must be a batch of samples, got a single number")
    lam, partner = check_unit("lam", lam, x), check_indices("partner", partner, len(x), x)
    wrong = f"lam and partner must have one shape that ends in B = {len(x)}, got {list(lam.shape)} and {list(partner.shape)}"
    require(lam.shape == partner.shape and lam.shape[-1:] == x.shape[:1], wrong)
    weight = lam.to(x.dtype).reshape(*lam.shape, *[1] * (x.ndim - 1))
    # index_select and not x[partner]: its backward adds whole samples, where indexing's adds element by element.
    others = x.index_select(0, partner.flatten()).unflatten(0, partner.shape)
    return torch.lerp(others, x, weight)


@register("mixup")
@dataclass(frozen=True)
class Mixup(InputMixer):
    """Convex combinations of two inputs, Eq. (6)."""

    def mix(self, x: Tensor, rng: torch.Generator, lam: Tensor, partner: Tensor) -> tuple[Tensor, Tensor]:
        return mixup(x, lam, partner).flatten(0, 1), lam
