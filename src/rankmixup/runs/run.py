"""What one run is: method, data, network, optimisation and seed, and the name that follows from them."""

from dataclasses import dataclass
from typing import Literal

from rankmixup.config import Configured
from rankmixup.data import DataSource
from rankmixup.errors import require
from rankmixup.methods import Method
from rankmixup.models import MODELS

__all__ = ["Optimisation", "Run", "Selection"]

Selection = Literal["accuracy", "nll", "last"]


@dataclass(frozen=True)
class Optimisation(Configured):
    """SGD with momentum and a learning rate that drops at milestones.

    Defaults are the recipe of the paper for CIFAR; clipping, weight decay and plain (not Nesterov) momentum are the
    release's, since the paper is silent.
    """

    epochs: int = 200
    """Passes over the training set."""
    batch_size: int = 128
    """Samples in a step, over all devices."""
    lr: float = 0.1
    """Learning rate at the start."""
    milestones: tuple[int, ...] = (80, 120)
    """Epochs after which the learning rate is multiplied by `decay`."""
    decay: float = 0.1
    """Factor of the learning rate at each milestone."""
    momentum: float = 0.9
    """Momentum of SGD."""
    weight_decay: float = 5e-4
    """Weight decay, on all parameters."""
    clip: float = 2.0
    """Largest norm of the whole gradient; 0 does not clip."""

    def check(self) -> None:
        for name in ("epochs", "batch_size"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1, got {getattr(self, name)}")
        require(self.lr > 0, f"lr must be positive, got {self.lr}")
        require(0 <= self.momentum < 1, f"momentum must lie in [0, 1), got {self.momentum}")
        for name in ("decay", "weight_decay", "clip"):
            require(getattr(self, name) >= 0, f"{name} must be at least 0, got {getattr(self, name)}")
        require(
            all(isinstance(epoch, int) and epoch >= 1 for epoch in self.milestones), f"milestones must be epochs, got {self.milestones}"
        )


RECIPES: dict[str, Optimisation] = {
    # Ours: long enough for cross-entropy to fit the training set, short enough for a demonstration.
    "digits": Optimisation(epochs=30, batch_size=64, milestones=(15, 22)),
    "synthetic": Optimisation(epochs=30, batch_size=64, milestones=(15, 22)),
}
"""How each data set is trained unless the run says otherwise; the paper's CIFAR recipe for all others."""


@dataclass(frozen=True, init=False)
class Run(Configured):
    """One training run. Methods and data sets may be given by name; without `optimisation` it is the data set's recipe.

    >>> Run("ce").id == Run("ce", data="digits", seed=0).id, Run("ce").id == Run("ce", seed=1).id
    (True, False)
    """

    method: Method
    """Training-time method."""
    data: DataSource
    """Data set."""
    model: str
    """Network."""
    optimisation: Optimisation
    """How it is optimised."""
    seed: int
    """Seed of every random stream of the run."""
    selection: Selection
    """Which epoch is kept: best validation accuracy (the paper), lowest validation NLL, or the last."""

    def __init__(
        self,
        method: Method | str,
        data: DataSource | str = "digits",
        model: str = "resnet8",
        optimisation: Optimisation | None = None,
        seed: int = 0,
        selection: Selection = "accuracy",
    ) -> None:
        method = Method.registry[method]() if isinstance(method, str) else method
        data = DataSource.registry[data]() if isinstance(data, str) else data
        require(isinstance(method, Method), f"method must be a method or the name of one, got {method!r}")
        require(isinstance(data, DataSource), f"data must be a data set or the name of one, got {data!r}")
        resolved = {
            "method": method,
            "data": data,
            "model": model,
            "optimisation": optimisation or RECIPES.get(data.name, Optimisation()),
            "seed": seed,
            "selection": selection,
        }
        for name, value in resolved.items():
            object.__setattr__(self, name, value)
        self.__post_init__()

    def check(self) -> None:
        MODELS[self.model]  # raises for an unknown name
        require(self.seed >= 0, f"seed must be at least 0, got {self.seed}")

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits that name this configuration and no other."""
        return self.content_hash()[:12]
