"""The paper: its tables and figures, the numbers it prints, its claims, and what our runs say about them."""

from rankmixup.paper.experiment import Column, Experiment, Row, Scale
from rankmixup.paper.scales import SCALES, find_scale
from rankmixup.paper.tables import EXPERIMENTS

__all__ = ["EXPERIMENTS", "SCALES", "Column", "Experiment", "Row", "Scale", "find_scale"]
