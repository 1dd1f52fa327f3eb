"""rankmixup reproduce."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from rankmixup.cli.output import console, make_folder
from rankmixup.cli.parsing import parse
from rankmixup.cli.work import WorkOptions, print_estimate, raise_failures
from rankmixup.errors import require, unknown_name

if TYPE_CHECKING:
    from rankmixup.paper import Experiment


@dataclass(kw_only=True)
class Reproduce(WorkOptions):
    """The paper's tables and figures again: train what is missing, and set what comes out beside the published numbers.

    Scale `paper` is the paper's recipe; `cpu` and `quick` are smaller, and fill the columns that they have something for.
    An interrupted command is simply given again, here or on other machines that share --runs: no run is trained twice.
    """

    experiments: tyro.conf.Positional[tuple[str, ...]]
    """Keys from `rankmixup list experiments`, or all."""
    scale: Literal["paper", "cpu", "quick"] = "paper"
    """How large."""
    seeds: int | None = None
    """Seeds 0..N-1 of each run; by default as many as the scale has."""
    rows: str = ""
    """Keys of rows, with commas; all unless named."""
    columns: str = ""
    """Keys of columns, with commas; all unless named."""
    train: bool = True
    """Train what is missing; --no-train scores what is there and prints the rest as missing."""
    write: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(default: nowhere)")] = None
    """Folder for the scorecard as JSON, CSV, Markdown, LaTeX and HTML, and for the figures."""


def run(argv: list[str]) -> int:
    """Parse and run."""
    options = parse(Reproduce, argv, prog="rankmixup reproduce")
    options.check()
    require(options.seeds is None or options.seeds >= 1, f"seeds must be at least 1, got {options.seeds}")

    from rankmixup.experiments import tasks_for
    from rankmixup.paper import find_scale
    from rankmixup.paper.scorecard import scorecard
    from rankmixup.reports.live import follow
    from rankmixup.reports.results import write_results
    from rankmixup.reports.scorecard import scorecard_view

    chosen = _chosen(options)
    scale = find_scale(options.scale, options.data_root)
    parts = [(experiment, experiment.cells(scale, options.seeds)) for experiment in chosen]
    tasks = tasks_for(cells for _, cells in parts)
    head = {"experiments": [experiment.key for experiment in chosen], "scale": scale.key}
    if options.dry_run:
        print_estimate(tasks, options, "gpu" if scale.key == "paper" else "core", head)
        return 0
    if options.write is not None:
        make_folder("write", options.write)
    failed = []
    if options.train:
        if scale.key == "paper":
            _require_gpu(options)
        failed = follow(
            options.carry_out(tasks),
            console(stderr=True),
            options.runs,
            len(tasks),
            [experiment.grid(cells) for experiment, cells in parts],
        )
    card = scorecard(chosen, scale, options.runs, options.seeds)
    if options.write is not None:
        write_results(card, options.write)
    if options.json:
        failures = {event.task.run.id: event.reason for event in failed}
        print(json.dumps({**head, "failed": failures, "scorecard": card.to_dict()}, allow_nan=False))
    else:
        console().print(scorecard_view(card))
    raise_failures(failed, len(tasks))
    return 0


def _chosen(options: Reproduce) -> "list[Experiment]":
    from rankmixup.paper import EXPERIMENTS

    names = list(EXPERIMENTS) if "all" in options.experiments else list(dict.fromkeys(options.experiments))
    require(len(names) > 0, "an experiment must be named, a key from 'rankmixup list experiments' or all, got nothing")
    for name in names:
        if name not in EXPERIMENTS:
            raise unknown_name("experiment", name, ["all", *EXPERIMENTS])
    return [EXPERIMENTS[name].part(_keys(options.rows), _keys(options.columns)) for name in names]


def _keys(text: str) -> list[str]:
    return [key.strip() for key in text.split(",") if key.strip()]


def _require_gpu(options: Reproduce) -> None:
    import torch

    require(
        options.on == "ray" or options.accelerator == "cpu" or torch.cuda.is_available(),
        "scale must be cpu or quick on a machine without a GPU, got paper; --accelerator cpu insists on it, --dry-run tells what it costs",
    )
