"""Where each value of a run comes from."""

import dataclasses
from collections.abc import Collection
from typing import Any

from rankmixup.config import flatten
from rankmixup.runs.recipes import recipe_for
from rankmixup.runs.run import Run


def sources(run: Run, given: Collection[str] = ()) -> dict[str, str]:
    """The source of each value of `run` by dotted name, as in its run.json.

    It is "given" for the names in `given`, the recipe's word (see `Source`) where the recipe of the data set has the value,
    "default" where it is its class's default, and "given" again for what none of them explains.
    """
    recipe = recipe_for(run.data)
    constants = {f"optimisation.{name}": constant for name, constant in recipe.optimisation.items()}
    constants |= {f"method.{name}": constant for name, constant in recipe.methods.get(run.method.name, {}).items()}
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
    values = flatten(Run(type(run.method)()).to_dict())
    mixer = getattr(run.method, "mixer", None)
    if mixer is not None and mixer.name != values["method.mixer.name"]:
        values |= {f"method.mixer.{name}": value for name, value in type(mixer)().to_dict().items() if name != "name"}
    return values | {f"data.{field.name}": field.default for field in dataclasses.fields(run.data)}
