"""rankmixup demo."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from rankmixup.cli.output import console, make_folder
from rankmixup.cli.parsing import parse
from rankmixup.cli.sources import spoken_warnings
from rankmixup.errors import one_line, require
from rankmixup.hardware import Hardware


@dataclass
class Demo:
    """Train cross-entropy, Mixup and both RankMixup losses on embedded data; print a table, draw two figures, write a page."""

    seeds: int = 3
    """How many runs of each method."""
    runs: Path = Path("runs")
    """Where runs are kept; finished ones are not trained again."""
    output: Path = Path("demo")
    """Where figures and report.html go."""
    workers: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: one for each core)")] = None
    """How many runs to train at once."""
    json: bool = False
    """Print the results as JSON on standard output, and nothing else there."""


def run(argv: list[str]) -> int:
    """Parse and run."""
    options = parse(Demo, argv, prog="rankmixup demo")
    require(options.seeds >= 1, f"seeds must be at least 1, got {options.seeds}")
    require(options.workers is None or options.workers >= 1, f"workers must be at least 1, got {options.workers}")

    make_folder("output", options.output)

    from rankmixup.cli.work import raise_failures
    from rankmixup.experiments import DEMO_METHODS, Task, Workplace, carry_out, demo_runs
    from rankmixup.reports.demo import READING, demo_evaluations, demo_figures, demo_table
    from rankmixup.reports.files import write_page
    from rankmixup.reports.live import follow
    from rankmixup.runs import StoredRun

    planned = demo_runs(options.seeds)
    todo = [run for runs in planned.values() for run in runs]
    log = console(stderr=True)
    log.print(f"Training {len(todo)} small networks; two to three minutes on two cores ...")
    place = Workplace(options.runs, hardware=Hardware("cpu"))
    events = carry_out([Task(run) for run in todo], place, workers=options.workers)
    raise_failures(follow(events, log, options.runs, len(todo)), len(todo))
    finished = {run: StoredRun.locate(options.runs, run) for run in todo}
    results = {DEMO_METHODS[key]: [finished[run] for run in runs] for key, runs in planned.items()}
    figures = demo_figures(results, options.output)
    with spoken_warnings():
        evaluations = demo_evaluations(results)
    page = options.output / "report.html"
    write_page(page, [runs[0] for runs in evaluations.values()], [runs[0] for runs in results.values()])
    if options.json:
        methods = {name: [stored.result().content for stored in runs] for name, runs in results.items()}
        evaluated = {name: [each.to_dict() for each in runs] for name, runs in evaluations.items()}
        written = {"figures": [str(path) for path in figures], "report": str(page)}
        print(json.dumps({"methods": methods, "evaluations": evaluated, **written}, allow_nan=False))
    else:
        out = console()
        out.print(demo_table(evaluations))
        out.print(READING)
        out.print("Figures: " + one_line(", ".join(str(path) for path in figures)), soft_wrap=True)
        out.print(f"Report of the first seed of each method: {one_line(str(page))}", soft_wrap=True)
    return 0
