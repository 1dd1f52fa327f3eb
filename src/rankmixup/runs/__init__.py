"""Runs: what is trained, and where it is kept."""

from rankmixup.runs.network import build_network
from rankmixup.runs.optimisation import Optimisation
from rankmixup.runs.provenance import sources
from rankmixup.runs.recipes import RECIPES, Constant, Recipe, recipe_for, with_field
from rankmixup.runs.records import RunResult
from rankmixup.runs.run import Run
from rankmixup.runs.selection import improves
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
