"""What one run is: method, data, network, optimisation, seed and selection, where each value comes from, and the name that follows."""

import dataclasses
import os
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
from rankmixup.runs.recipes import RecipeName, optimisation_recipe, recipe_for
from rankmixup.runs.weights import Weights

Selection = Literal["accuracy", "nll", "last"]


@dataclass(frozen=True, init=False)
class Run(Configured):
    """One training run. Methods and data sets may be given by name; what is not given is the data set's recipe.

    A method by name has the recipe's constants, a method as an object is taken as it is. A run that is not to start with drawn weights
    is given one of `pretrained=True` (torchvision/NAME, timm/NAME), `weights=FILE` and `init_from=RUN`, a finished run; with
    `recipe="finetune"` its optimisation is, where not given, made for that, and with `recipe="short"` for a few thousand samples.

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
    """Which epoch is kept: best validation accuracy (the paper, and the default), lowest validation NLL (the default where fields of the
    method are set by feedback), or the last."""
    tune_on: float = added_field(1.0)
    """Share of the validation samples that fields set to "auto" are tuned on; below 1 it is kept apart from the rest, on which epochs are
    selected and temperatures fitted."""
    weights: Weights | None = added_field(None)
    """Weights that it starts with; None draws them."""
    preprocess: Literal["weights", "data"] = added_field("weights")
    """Whose mean, standard deviation and, for images in files, size the input has: those of the weights where they have some, or the
    data set's."""
    freeze: bool = added_field(False)
    """Whether nothing but the head, the last linear layer, is trained."""

    def __init__(
        self,
        method: Method | str,
        data: DataSource | str = "digits",
        model: str | None = None,
        optimisation: Optimisation | None = None,
        seed: int = 0,
        selection: Selection | None = None,
        tune_on: float = 1.0,
        weights: Weights | str | os.PathLike[str] | None = None,
        preprocess: Literal["weights", "data"] = "weights",
        freeze: bool = False,
        *,
        pretrained: bool = False,
        init_from: str | os.PathLike[str] | None = None,
        recipe: RecipeName = "data",
    ) -> None:
        data = parse_source(data) if isinstance(data, str) else data
        require(isinstance(data, DataSource), f"data must be a data set or the name of one, got {shown(data)}")
        method = recipe_for(data).build_method(method) if isinstance(method, str) else method
        require(isinstance(method, Method), f"method must be a method or the name of one, got {shown(method)}")
        model = default_model(data) if model is None else model
        require(isinstance(model, str), f"model must be the name of a network, got {shown(model)}")
        # Only a name that leaves it open asks for the size: what is read back from a run must not look for its data.
        model = resolve_model(model, data.image_size) if leaves_variant_open(model) else model
        resolved = {
            "method": method,
            "data": data,
            "model": model,
            "optimisation": optimisation or optimisation_recipe(data, recipe).build_optimisation(),
            "seed": seed,
            # Accuracy does not see what dials are for, and the last epoch may have memorised wrong labels: see results/selection.md.
            "selection": ("nll" if method.auto_dials else "accuracy") if selection is None else selection,
            "tune_on": tune_on,
            "weights": _initial_weights(model, weights, pretrained, init_from),
            "preprocess": preprocess,
            "freeze": freeze,
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
        rule = "must go with pretrained, weights or init_from, got none of them"
        require(not self.freeze or self.weights is not None, f"freeze {rule}")
        described = self.weights is not None and self.weights.source != "file"
        require(self.preprocess == "weights" or described, "preprocess 'data' must go with pretrained or init_from, got neither")

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits that name this configuration and no other."""
        return self.content_hash()[:12]


def default_model(data: DataSource) -> str:
    """The network of a run that names none: one without convolutions for a table, whose samples are images of 1x1 pixel."""
    return "mlp" if data.image_size == 1 else "resnet8"


def _initial_weights(
    model: str, weights: Weights | str | os.PathLike[str] | None, pretrained: bool, init_from: str | os.PathLike[str] | None
) -> Weights | None:
    """The one kind of weights that is asked for, None if none is."""
    require(isinstance(pretrained, bool), f"pretrained must be True or False, got {shown(pretrained)}")
    asked = {"pretrained": pretrained, "weights": weights is not None, "init_from": init_from is not None}
    several = [name for name, given in asked.items() if given]
    require(len(several) <= 1, f"only one of pretrained, weights and init_from must be given, got {' and '.join(several)}")
    if pretrained:
        return Weights.pretrained(model)
    if init_from is not None:
        return Weights.of_run(init_from, model)
    return weights if weights is None or isinstance(weights, Weights) else Weights.in_file(weights)


def improves(val: Mapping[str, Any], best: Mapping[str, Any] | None, rule: Selection) -> bool:
    """Whether an epoch with these validation metrics is selected over the best one so far, if there is any."""
    if rule == "last" or best is None:
        return True
    return val[rule] > best[rule] if rule == "accuracy" else val[rule] < best[rule]


def build_network(run: Run, num_classes: int, view: View) -> nn.Module:
    """The network as it is drawn, without drawing from torch's global generator; `Run.weights` are neither looked for nor loaded.

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


def sources(run: Run, given: Collection[str] = (), recipe: RecipeName = "data") -> dict[str, str]:
    """The source of each value of `run` by dotted name, as in its run.json.

    It is "given" for the names in `given`, the recipe's word (see `Source`) where the recipe of the data set has the value,
    "default" where it is its class's default, and "given" again for what none of them explains. The optimisation is compared with `recipe`.
    """
    methods = recipe_for(run.data).methods.get(run.method.name, {})
    constants = flatten({"optimisation": optimisation_recipe(run.data, recipe).optimisation, "method": methods})
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
