"""Runs: what is trained, and where it is kept."""

from rankmixup.runs.optimisation import Optimisation
from rankmixup.runs.recipes import RECIPES, Constant, Recipe, recipe_for, with_field
from rankmixup.runs.records import RunResult
from rankmixup.runs.run import Run, build_network, improves, sources
from rankmixup.runs.store import StoredRun, describe_environment

__all__ = [
    "RECIPES",
    "Constant",
    "Optimisation",
    "Recipe",
    "Run",
    "RunResult",
    "StoredRun",
    "build_network",
    "describe_environment",
    "improves",
    "recipe_for",
    "sources",
    "with_field",
]
