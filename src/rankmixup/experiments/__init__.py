"""Experiments: grids of runs, and what trains them."""

from rankmixup.experiments.demo import DEMO_METHODS, demo_runs
from rankmixup.experiments.grid import Cell, Grid, Task, tasks_for
from rankmixup.experiments.runner import Event, run_tasks
from rankmixup.training import Workplace

__all__ = ["DEMO_METHODS", "Cell", "Event", "Grid", "Task", "Workplace", "demo_runs", "run_tasks", "tasks_for"]
