"""rankmixup runs."""

from dataclasses import dataclass
from pathlib import Path

from rankmixup.cli.options import Json
from rankmixup.cli.output import answer


@dataclass
class Runs:
    """List runs with their state (running, finished, interrupted) and the validation metrics of their best and last epochs."""

    runs: Path = Path("runs")
    """Folder that contains the runs."""
    json: Json = False


def run(options: Runs) -> None:
    """Run the command."""
    from rankmixup.reports.tables import runs_table
    from rankmixup.runs.listing import list_runs

    listed = list_runs(options.runs)
    answer(options.json, listed.to_dict, lambda: runs_table(listed))
