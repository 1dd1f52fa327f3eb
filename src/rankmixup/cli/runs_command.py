"""rankmixup runs."""

import json
from dataclasses import dataclass
from pathlib import Path

from rankmixup.cli.output import console
from rankmixup.cli.parsing import parse


@dataclass
class Runs:
    """Runs with their state (running, finished, interrupted), and the validation figures of their best and their last epoch."""

    runs: Path = Path("runs")
    """Where runs are kept."""
    json: bool = False
    """Print one JSON object on standard output, and nothing else there."""


def run(argv: list[str]) -> int:
    """Parse and run."""
    options = parse(Runs, argv, prog="rankmixup runs")

    from rankmixup.reports.tables import runs_table
    from rankmixup.runs.listing import list_runs

    listed = list_runs(options.runs)
    if options.json:
        print(json.dumps(listed.to_dict(), allow_nan=False))
    else:
        console().print(runs_table(listed))
    return 0
