"""rankmixup demo."""

import json
from dataclasses import dataclass
from pathlib import Path

import tyro

from rankmixup.errors import require


@dataclass
class Demo:
    """Train cross-entropy, Mixup and both RankMixup losses on embedded data; print a table, draw two figures."""

    seeds: int = 3
    """How many runs of each method."""
    runs: Path = Path("runs")
    """Where runs are kept; finished ones are not trained again."""
    output: Path = Path("demo")
    """Where the figures go."""
    json: bool = False
    """Print the results as JSON on standard output, and nothing else there."""


def run(argv: list[str]) -> int:
    """Parse and run."""
    options = tyro.cli(Demo, args=argv, prog="rankmixup demo")
    require(options.seeds >= 1, f"seeds must be at least 1, got {options.seeds}")

    from rich.console import Console

    from rankmixup.experiments import run_demo
    from rankmixup.reports.demo import READING, demo_figures, demo_table
    from rankmixup.training import Watcher

    results = run_demo(options.seeds, options.runs, Watcher())
    figures = demo_figures(results, options.output)
    if options.json:
        print(
            json.dumps(
                {
                    "methods": {name: [stored.result for stored in runs] for name, runs in results.items()},
                    "figures": [str(path) for path in figures],
                }
            )
        )
    else:
        console = Console()
        console.print(demo_table(results))
        console.print(READING)
        console.print("Figures: " + ", ".join(str(path) for path in figures), soft_wrap=True)
    return 0
