"""Runs: what is trained, and where it is kept."""

from rankmixup.runs.optimisation import Optimisation
from rankmixup.runs.recipes import RECIPES, Constant, Recipe, recipe_for, with_field
from rankmixup.runs.records import RunResult
from rankmixup.runs.run import Run, sources
from rankmixup.runs.store import StoredRun
from rankmixup.runs.weights import Weights

__all__ = ["RECIPES", "Constant", "Optimisation", "Recipe", "Run", "RunResult", "StoredRun", "recipe_for", "sources"]
__all__ += ["Weights", "with_field"]
