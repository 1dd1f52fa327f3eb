"""The paper: its tables and figures, the numbers it prints, its claims, and what our runs say about them."""

from rankmixup.paper.experiment import Column, Experiment, Row, Scale
from rankmixup.paper.figures import FIGURES
from rankmixup.paper.scales import SCALES, find_scale
from rankmixup.paper.tables import TABLES

__all__ = ["EXPERIMENTS", "SCALES", "Column", "Experiment", "Row", "Scale", "find_scale"]

EXPERIMENTS = {experiment.key: experiment for experiment in (*TABLES, *FIGURES)}
"""The paper's tables and figures by key."""
