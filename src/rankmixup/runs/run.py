"""What one run is: method, data, network, optimisation and seed, and the name that follows from them."""

from dataclasses import dataclass

from rankmixup.config import Configured
from rankmixup.data import DataSource, parse_source
from rankmixup.errors import require, shown
from rankmixup.methods import Method
from rankmixup.models import leaves_variant_open, resolve_model
from rankmixup.runs.optimisation import Optimisation
from rankmixup.runs.recipes import recipe_for
from rankmixup.runs.selection import Selection


@dataclass(frozen=True, init=False)
class Run(Configured):
    """One training run. Methods and data sets may be given by name; what is not given is the data set's recipe.

    A method by name has the recipe's constants, a method as an object is taken as it is.

    >>> Run("ce").id == Run("ce", data="digits", seed=0).id, Run("ce").id == Run("ce", seed=1).id
    (True, False)
    >>> Run("rankmixup-mrl", data="tiny-imagenet").method.margin, Run("ce", data="tiny-imagenet", model="resnet50").model
    (1.0, 'resnet50:tiny')
    """

    method: Method
    """Training-time method."""
    data: DataSource
    """Data set."""
    model: str
    """Network, with its variant where it has several."""
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
        data = parse_source(data) if isinstance(data, str) else data
        require(isinstance(data, DataSource), f"data must be a data set or the name of one, got {shown(data)}")
        recipe = recipe_for(data)
        method = recipe.build_method(method) if isinstance(method, str) else method
        require(isinstance(method, Method), f"method must be a method or the name of one, got {shown(method)}")
        require(isinstance(model, str), f"model must be the name of a network, got {shown(model)}")
        resolved = {
            "method": method,
            "data": data,
            # Only a name that leaves it open asks for the size: what is read back from a run must not look for its data.
            "model": resolve_model(model, data.image_size) if leaves_variant_open(model) else model,
            "optimisation": optimisation or recipe.build_optimisation(),
            "seed": seed,
            "selection": selection,
        }
        for name, value in resolved.items():
            object.__setattr__(self, name, value)
        self.__post_init__()

    def check(self) -> None:
        require(self.seed >= 0, f"seed must be at least 0, got {self.seed}")

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits that name this configuration and no other."""
        return self.content_hash()[:12]
