"""What one run is: method, data, network, optimisation, seed and selection, where each value comes from, and the name that follows."""

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from rankmixup import random
from rankmixup.config import Configured, added_field, flatten
from rankmixup.data import DataSource, View, parse_source
from rankmixup.errors import require, shown
from rankmixup.methods import Method
from rankmixup.models import build_model, leaves_variant_open, resolve_model
from rankmixup.runs.optimisation import Optimisation
from rankmixup.runs.recipes import recipe_for

Selection = Literal["accuracy", "nll", "last"]


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
    """Network, with its variant where it has several; by default resnet8, for a table mlp."""
    optimisation: Optimisation
    """How it is optimised."""
    seed: int
    """Seed of every random stream of the run."""
    selection: Selection
    """Which epoch is kept: best validation accuracy (the paper), lowest validation NLL, or the last."""
    tune_on: float = added_field(1.0)
    """Share of the validation samples that fields set to "auto" are tuned on; below 1 it is kept apart from the rest, on which epochs are
    selected and temperatures fitted."""

    def __init__(
        self,
        method: Method | str,
        data: DataSource | str = "digits",
        model: str | None = None,
        optimisation: Optimisation | None = None,
        seed: int = 0,
        selection: Selection = "accuracy",
        tune_on: float = 1.0,
    ) -> None:
        data = parse_source(data) if isinstance(data, str) else data
        require(isinstance(data, DataSource), f"data must be a data set or the name of one, got {shown(data)}")
        recipe = recipe_for(data)
        method = recipe.build_method(method) if isinstance(method, str) else method
        require(isinstance(method, Method), f"method must be a method or the name of one, got {shown(method)}")
        model = default_model(data) if model is None else model
        require(isinstance(model, str), f"model must be the name of a network, got {shown(model)}")
        resolved = {
            "method": method,
            "data": data,
            # Only a name that leaves it open asks for the size: what is read back from a run must not look for its data.
            "model": resolve_model(model, data.image_size) if leaves_variant_open(model) else model,
            "optimisation": optimisation or recipe.build_optimisation(),
            "seed": seed,
            "selection": selection,
            "tune_on": tune_on,
        }
        for name, value in resolved.items():
            object.__setattr__(self, name, value)
        self.__post_init__()

    def check(self) -> None:
        require(self.seed >= 0, f"seed must be at least 0, got {self.seed}")
        require(0 < self.tune_on <= 1, f"tune_on must be a share above 0, at most 1, got {self.tune_on}")
        tuned = ", ".join(self.method.auto_dials)
        rule = f"{tuned} of {self.method.name} must not be auto with protocol 'release', whose validation samples are the test samples"
        require(not tuned or self.data.protocol == "paper", rule)
        if self.tune_on < 1:
            rule = 'tune_on must be left out unless a field of the method is "auto"'
            require(bool(tuned), f"{rule}, got {self.tune_on} with {shown(self.method)}")

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits that name this configuration and no other."""
        return self.content_hash()[:12]


def default_model(data: DataSource) -> str:
    """The network of a run that names none: one without convolutions for a table, whose samples are images of 1x1 pixel."""
    return "mlp" if data.image_size == 1 else "resnet8"


def improves(val: Mapping[str, Any], best: Mapping[str, Any] | None, rule: Selection) -> bool:
    """Whether an epoch with these validation metrics is selected over the best one so far, if there is any."""
    if rule == "last" or best is None:
        return True
    return val[rule] > best[rule] if rule == "accuracy" else val[rule] < best[rule]


def build_network(run: Run, num_classes: int, view: View) -> nn.Module:
    """The network as it is before training, without drawing from torch's global generator.

    Args:
        run: Names the network and seeds its weights.
        num_classes: Number of classes.
        view: Size and channels of its input.
    """
    fits = view.input_shape in ((view.in_channels, view.image_size, view.image_size), (view.in_channels,))
    rule = f"model must be a module of your own, rm.train(run, model=module), for inputs of shape {list(view.input_shape)}"
    require(fits, f"{rule}, which are no square images and no rows of a table, got {run.model!r}")
    with random.global_seed(run.seed, "weights"):
        return build_model(run.model, num_classes=num_classes, image_size=view.image_size, in_channels=view.in_channels)


def sources(run: Run, given: Collection[str] = ()) -> dict[str, str]:
    """The source of each value of `run` by dotted name, as in its run.json.

    It is "given" for the names in `given`, the recipe's word (see `Source`) where the recipe of the data set has the value,
    "default" where it is its class's default, and "given" again for what none of them explains.
    """
    recipe = recipe_for(run.data)
    constants = flatten({"optimisation": recipe.optimisation, "method": recipe.methods.get(run.method.name, {})})
    defaults = _defaults(run)

    def source(path: str, value: Any) -> str:
        constant = constants.get(path)
        if path == "method.name" or path in given:
            return "given"
        if constant is not None and value == (list(constant.value) if isinstance(constant.value, tuple) else constant.value):
            return constant.source
        return "default" if path in defaults and value == defaults[path] else "given"

    return {path: source(path, value) for path, value in flatten(run.to_dict()).items()}


def _defaults(run: Run) -> dict[str, Any]:
    """Values of a run of the same classes that nobody has set."""
    values = flatten(Run(type(run.method)(), model=default_model(run.data)).to_dict())
    mixer = getattr(run.method, "mixer", None)
    if mixer is not None and mixer.name != values["method.mixer.name"]:
        values |= {f"method.mixer.{name}": value for name, value in type(mixer)().to_dict().items() if name != "name"}
    fields = {field.name: field.default for field in dataclasses.fields(run.data)}
    # A data set has put what it found in the place of "auto".
    return values | {f"data.{name}": getattr(run.data, name) if default == "auto" else default for name, default in fields.items()}
