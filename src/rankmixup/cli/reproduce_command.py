"""rankmixup reproduce."""

from dataclasses import dataclass
from typing import Literal

import tyro

from rankmixup.cli.options import OptionalPath
from rankmixup.cli.output import answer, console, make_folder
from rankmixup.cli.work import WorkOptions, print_estimate, raise_failures
from rankmixup.errors import require, require_whole, unknown_name

OURS = {
    "tournament": "Ours: every method on small data sets, against cross-entropy with temperature scaling",
    "ablation": "Ours: rankmixup-auto with one thing changed at a time",
    "sweeps": "Ours: margin, Q, alpha and mixer of the paper's two losses on Fashion-MNIST",
    "shift": "Ours: methods of the tournament on corrupted images, with its runs",
}
"""Experiments that are not the paper's, with their titles."""


@dataclass(frozen=True, kw_only=True)
class Reproduce(WorkOptions):
    """Reproduce the paper's tables and figures: train the runs that are missing and compare the results with the published numbers.

    Scale `paper` uses the paper's settings; `cpu` and `quick` are smaller and fill only some of the columns. After an interruption, run the
    same command again, on this machine or on others that share --runs: no run is trained twice.
    """

    experiments: tyro.conf.Positional[tuple[str, ...]]
    """Names from `rankmixup list experiments`, or all of the paper's; not the paper's: tournament, ablation, sweeps, shift."""
    scale: Literal["paper", "cpu", "quick"] = "paper"
    """Size of the experiments."""
    seeds: int | None = None
    """Use seeds 0..N-1 for each run; by default as many as the scale uses."""
    rows: str = ""
    """Rows to reproduce, separated by commas; by default all."""
    columns: str = ""
    """Columns to reproduce, separated by commas; by default all."""
    train: bool = True
    """Train the runs that are missing; --no-train only evaluates finished runs and prints the others as missing."""
    write: OptionalPath = None
    """Write the scorecard as JSON, CSV, Markdown, LaTeX and HTML, and the figures, to this folder."""


def run(options: Reproduce) -> None:
    """Run the command."""
    options.check()
    if options.seeds is not None:
        require_whole("seeds", options.seeds, least=1)

    from rankmixup.cli.tournament_command import run_ours
    from rankmixup.experiments import tasks_for
    from rankmixup.paper import EXPERIMENTS, find_scale
    from rankmixup.paper.scorecard import scorecard
    from rankmixup.reports.results import write_results
    from rankmixup.reports.scorecard import scorecard_view

    for name in OURS:
        if name in options.experiments:
            require(len(options.experiments) == 1, f"{name} must be reproduced alone, got {', '.join(options.experiments)}")
            run_ours(options, name)
            return
    names = list(EXPERIMENTS) if "all" in options.experiments else list(dict.fromkeys(options.experiments))
    require(len(names) > 0, "reproduce must be given a name from 'rankmixup list experiments', or all, got nothing")
    for name in names:
        if name not in EXPERIMENTS:
            raise unknown_name("experiment", name, ["all", *OURS, *EXPERIMENTS])
    rows, columns = ([key.strip() for key in text.split(",") if key.strip()] for text in (options.rows, options.columns))
    chosen = [EXPERIMENTS[name].part(rows, columns) for name in names]
    scale = find_scale(options.scale, options.data_root)
    parts = [(experiment, experiment.cells(scale, options.seeds)) for experiment in chosen]
    tasks = tasks_for(cells for _, cells in parts)
    head = {"experiments": [experiment.key for experiment in chosen], "scale": scale.key}
    console(stderr=True).print(f"Scale {scale.key}: {scale.summary}.", soft_wrap=True)
    if options.dry_run:
        if not options.json:
            for each in chosen:
                console().print(f"{each.key}, {each.title}. In the paper: {each.expect}", soft_wrap=True)
        print_estimate(tasks, options, "gpu" if scale.key == "paper" else "core", head)
        return
    if options.write is not None:
        make_folder("write", options.write)
    failed = []
    if options.train:
        import torch

        possible = scale.key != "paper" or options.on == "ray" or options.accelerator == "cpu" or torch.cuda.is_available()
        hint = "--accelerator cpu trains anyway, --dry-run estimates the cost"
        require(possible, f"scale must be cpu or quick on a machine without a GPU, got paper; {hint}")
        failed = options.train_tasks(tasks, [experiment.grid(cells) for experiment, cells in parts])
    card = scorecard(chosen, scale, options.runs, options.seeds)
    if options.write is not None:
        write_results(card, options.write)
    failures = {event.task.run.id: event.reason for event in failed}
    answer(options.json, lambda: {**head, "failed": failures, "scorecard": card.to_dict()}, lambda: scorecard_view(card))
    raise_failures(failed, len(tasks))
