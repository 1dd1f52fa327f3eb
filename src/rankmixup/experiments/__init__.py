"""Experiments: sets of runs that answer a question."""

from rankmixup.experiments.demo import DEMO_METHODS, demo_runs
from rankmixup.experiments.runner import train_all

__all__ = ["DEMO_METHODS", "demo_runs", "train_all"]
