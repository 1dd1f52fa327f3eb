"""Options and helpers of commands that train."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from rankmixup.cli.options import Json
from rankmixup.cli.output import answer, console
from rankmixup.errors import WorkFailed, require, require_whole
from rankmixup.hardware import Accelerator, Hardware

if TYPE_CHECKING:
    from rankmixup.experiments import Event, Grid, Task
    from rankmixup.experiments.estimate import Device
    from rankmixup.training import Workplace


@dataclass(frozen=True, kw_only=True)
class Training:
    """Options of commands that train: where runs and data sets are, and how a run is saved and logged."""

    runs: Path = Path("runs")
    """Folder for the runs; finished runs are not trained again, interrupted runs continue."""
    data_root: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(default: RANKMIXUP_DATA, or data)")] = None
    """Folder that contains the data sets."""
    download: bool = False
    """Download data sets that are missing, if their licence allows it."""
    checkpoint_every: Annotated[str, tyro.conf.arg(metavar="Nsteps|Nmin")] = "1min"
    """How often a run is saved, such as 200steps or 5min; an interruption loses at most this much training."""
    log: tuple[Literal["tensorboard", "wandb", "mlflow"], ...] = ()
    """Log each run to these as well, besides its own log.jsonl and metrics.csv; nothing is sent to another machine."""
    json: Json = False

    def workplace(self, hardware: Hardware) -> "Workplace":
        """The same for the functions that train."""
        from rankmixup.training import Workplace

        return Workplace(self.runs, self.data_root, self.download, hardware, self.checkpoint_every, self.log)


@dataclass(frozen=True, kw_only=True)
class WorkOptions(Training):
    """Options of commands that train many runs."""

    on: Literal["local", "ray"] = "local"
    """On this machine, with one process for each GPU or else for each core, or on a Ray cluster."""
    address: str = ""
    """Address of the Ray cluster; without it, Ray is started on this machine."""
    workers: int = 0
    """Number of processes on this machine; 0 means one for each GPU or else for each core."""
    accelerator: Accelerator = "auto"
    """Kind of device."""
    compile: bool = False
    """Compile the networks (torch.compile)."""
    dry_run: bool = False
    """Print how many runs there are, how many are finished and the estimated cost of the others, and train nothing."""

    def check(self) -> None:
        """Refuse invalid options before any work."""
        require_whole("workers", self.workers, least=0)
        require(not self.workers or self.on == "local", f"--workers must go with --on local, got --on ray and {self.workers} workers")
        require(not self.address or self.on == "ray", f"--address must go with --on ray, got {self.address!r}")

    def train_tasks(self, tasks: "Sequence[Task]", grids: "Sequence[Grid]" = ()) -> "list[Event]":
        """Train the runs that are missing and show the progress; returns the failures."""
        from rankmixup.experiments import run_tasks
        from rankmixup.reports.live import follow

        place = self.workplace(Hardware(self.accelerator, compile=self.compile))
        events = run_tasks(tasks, place, on=self.on, workers=self.workers or None, address=self.address or None)
        return follow(events, console(stderr=True), self.runs, len(tasks), grids)


def print_estimate(tasks: "Sequence[Task]", options: WorkOptions, device: "Device", head: dict[str, Any]) -> None:
    """Print the estimated cost of `tasks`."""
    from rankmixup.experiments.estimate import cost_of

    found = cost_of(tasks, options.runs, device, options.data_root)
    hours, cores = found.seconds / 3600, options.workers or os.cpu_count() or 1
    cost = f"{_rounded(hours)} GPU hours"
    if device == "core":
        cost = f"{_rounded(hours)} core hours ({_rounded(hours / cores)} hours on {cores} cores)"
    numbers = {"runs": found.runs, "done": found.done, f"{device}_hours": hours, "assumptions": found.assumptions}
    text = f"{found.runs} runs, {found.done} of them finished; the others take about {cost}.\nAssumptions: {found.assumptions}."
    answer(options.json, lambda: {**head, **numbers}, lambda: text)


def _rounded(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.2g}"


def raise_failures(failed: "Sequence[Event]", total: int) -> None:
    """Raise one error for all runs that failed, with each reason once."""
    if failed:
        reasons = Counter(event.reason for event in failed)
        text = "; ".join(f"{reason} ({count} runs)" if count > 1 else reason for reason, count in reasons.most_common(5))
        more = f"; and {len(reasons) - 5} more reasons" if len(reasons) > 5 else ""
        raise WorkFailed(f"{len(failed)} of {total} runs failed; run the same command to try them again: {text}{more}")
