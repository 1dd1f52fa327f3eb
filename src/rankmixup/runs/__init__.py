"""Runs: what is trained, and where it is kept."""

from rankmixup.runs.run import RECIPES, Optimisation, Run
from rankmixup.runs.scores import Scores
from rankmixup.runs.store import StoredRun, environment

__all__ = ["RECIPES", "Optimisation", "Run", "Scores", "StoredRun", "environment"]
