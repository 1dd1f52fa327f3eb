"""rankmixup runs."""

from dataclasses import dataclass
from pathlib import Path

from rankmixup.cli.options import Json
from rankmixup.cli.output import answer
from rankmixup.cli.parsing import parse


@dataclass
class Runs:
    """List runs with their state (running, finished, interrupted) and the validation metrics of their best and last epochs."""

    runs: Path = Path("runs")
    """Folder that contains the runs."""
    json: Json = False


def run(argv: list[str]) -> int:
    """Parse and run."""
    options = parse(Runs, argv, prog="rankmixup runs")

    from rankmixup.reports.tables import runs_table
    from rankmixup.runs.listing import list_runs

    listed = list_runs(options.runs)
    answer(options.json, listed.to_dict, lambda: runs_table(listed))
    return 0
