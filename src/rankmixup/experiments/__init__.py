"""Experiments: sets of runs that answer a question."""

from rankmixup.experiments.demo import demo_runs, run_demo

__all__ = ["demo_runs", "run_demo"]
