"""What commands that train many runs have in common."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rankmixup.cli.output import console
from rankmixup.cli.train_command import CheckpointEvery, DataRoot, Log
from rankmixup.errors import WorkFailed, require
from rankmixup.hardware import Accelerator, Hardware

if TYPE_CHECKING:
    from rankmixup.experiments import Event, Task
    from rankmixup.experiments.estimate import Device


@dataclass(kw_only=True)
class WorkOptions:
    """Where and on what runs are trained."""

    on: Literal["local", "ray"] = "local"
    """On this machine, one process for each GPU or else each core; or on a Ray cluster."""
    address: str = ""
    """Address of the Ray cluster; without one, Ray is started on this machine."""
    workers: int = 0
    """Processes on this machine; 0 is one for each GPU or else each core."""
    runs: Path = Path("runs")
    """Where runs are kept; finished ones are not trained again, interrupted ones go on."""
    data_root: DataRoot = None
    """Folder of the data sets that live on disk."""
    download: bool = False
    """Fetch a data set that is not there, if it may be fetched."""
    accelerator: Accelerator = "auto"
    """Kind of device."""
    checkpoint_every: CheckpointEvery = "1min"
    """How much training an interruption of a run may cost, such as 200steps or 5min."""
    compile: bool = False
    """Compile the networks (torch.compile)."""
    log: Log = ()
    """Where each run is logged to beside its own log.jsonl and metrics.csv; nothing leaves the machine."""
    dry_run: bool = False
    """Say how many runs there are, how many are done and what the rest would cost, and train nothing."""
    json: bool = False
    """Print one JSON object on standard output, and nothing else there."""

    def check(self) -> None:
        """Raise for what no command can do."""
        require(self.workers >= 0, f"workers must be at least 0, got {self.workers}")
        require(not self.workers or self.on == "local", f"--workers must go with --on local, a Ray cluster has its own, got {self.workers}")
        require(not self.address or self.on == "ray", f"--address must go with --on ray, got {self.address!r}")

    def carry_out(self, tasks: "Sequence[Task]") -> "Iterable[Event]":
        """Train what is missing."""
        from rankmixup.experiments import Workplace, carry_out

        hardware = Hardware(self.accelerator, compile=self.compile)
        place = Workplace(self.runs, self.data_root, self.download, hardware, self.checkpoint_every, self.log)
        return carry_out(tasks, place, on=self.on, workers=self.workers or None, address=self.address or None)


def print_estimate(tasks: "Sequence[Task]", options: WorkOptions, device: "Device", head: dict[str, Any]) -> None:
    """What `tasks` would cost."""
    from rankmixup.experiments.estimate import cost_of

    found = cost_of(tasks, options.runs, device)
    hours = found.seconds / 3600
    if options.json:
        figures = {"runs": found.runs, "done": found.done, f"{device}_hours": hours, "assumptions": found.assumptions}
        print(json.dumps({**head, **figures}, allow_nan=False))
        return
    cores = options.workers or os.cpu_count() or 1
    cost = (
        f"{_rounded(hours)} GPU hours" if device == "gpu" else f"{_rounded(hours)} core hours, {_rounded(hours / cores)} on {cores} cores"
    )
    console().print(f"{found.runs} runs, {found.done} of them done; the rest takes about {cost}.")
    console().print(f"Assumed: {found.assumptions}.")


def _rounded(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.2g}"


def raise_failures(failed: "Sequence[Event]", total: int) -> None:
    """One error for all runs that failed, with each reason once."""
    if failed:
        reasons = Counter(event.reason for event in failed)
        text = "; ".join(f"{reason} ({count} runs)" if count > 1 else reason for reason, count in reasons.most_common(5))
        more = f"; and {len(reasons) - 5} more reasons" if len(reasons) > 5 else ""
        raise WorkFailed(f"{len(failed)} of {total} runs failed, and the same command tries them again: {text}{more}")
