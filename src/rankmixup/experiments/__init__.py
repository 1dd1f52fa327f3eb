"""Experiments: sets of runs that answer a question."""

from rankmixup.experiments.base import Cell, Column, Experiment, Row, Scale, Task, tasks_for
from rankmixup.experiments.demo import DEMO_METHODS, demo_runs
from rankmixup.experiments.figures import FIGURES
from rankmixup.experiments.runner import Event, Workplace, carry_out
from rankmixup.experiments.scales import SCALES, find_scale
from rankmixup.experiments.tables import TABLES

__all__ = [
    "DEMO_METHODS",
    "EXPERIMENTS",
    "SCALES",
    "Cell",
    "Column",
    "Event",
    "Experiment",
    "Row",
    "Scale",
    "Task",
    "Workplace",
    "carry_out",
    "demo_runs",
    "find_scale",
    "tasks_for",
]

EXPERIMENTS = {experiment.key: experiment for experiment in (*TABLES, *FIGURES)}
"""The paper's tables and figures by key."""
