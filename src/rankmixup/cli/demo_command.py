"""rankmixup demo."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from rankmixup.cli.options import Json
from rankmixup.cli.output import answer, console, make_folder
from rankmixup.errors import one_line, require_whole
from rankmixup.hardware import Hardware


@dataclass
class Demo:
    """Train five methods on built-in data; print a table, draw two figures and write an HTML report.

    They are cross-entropy, Mixup, the paper's losses RankMixup MRL and RankMixup M-NDCG, and our variant RankMixup auto. This takes
    two to three minutes on two cores, and about a minute with one seed.
    """

    seeds: int = 3
    """Number of runs of each method."""
    runs: Path = Path("runs")
    """Folder for the runs; finished runs are not trained again."""
    output: Path = Path("demo")
    """Folder for the figures and report.html."""
    workers: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: one for each core)")] = None
    """Number of runs to train at the same time."""
    json: Json = False


def run(options: Demo) -> None:
    """Run the command."""
    require_whole("seeds", options.seeds, least=1)
    if options.workers is not None:
        require_whole("workers", options.workers, least=1)
    make_folder("output", options.output)

    from rich.console import Group

    from rankmixup.cli.work import raise_failures
    from rankmixup.evaluation.paired_tests import paired_tests
    from rankmixup.experiments import DEMO_METHODS, Task, Workplace, demo_runs, run_tasks
    from rankmixup.reports.demo import READING, demo_evaluations, demo_figures, demo_table
    from rankmixup.reports.entry import ReportEntry
    from rankmixup.reports.files import write_page
    from rankmixup.reports.live import follow
    from rankmixup.runs import StoredRun

    planned = demo_runs(options.seeds)
    todo = [run for runs in planned.values() for run in runs]
    log = console(stderr=True)
    log.print(f"Training {len(todo)} small networks; this takes two to three minutes on two cores ...")
    events = run_tasks([Task(run) for run in todo], Workplace(options.runs, hardware=Hardware("cpu")), workers=options.workers)
    raise_failures(follow(events, log, options.runs, len(todo)), len(todo))
    results = {DEMO_METHODS[key]: [StoredRun.locate(options.runs, run) for run in runs] for key, runs in planned.items()}
    figures = [str(path) for path in demo_figures(results, options.output)]
    evaluations = demo_evaluations(results)
    page = options.output / "report.html"
    entries = [ReportEntry.of(found[0], runs[:1]) for found, runs in zip(evaluations.values(), results.values(), strict=True)]
    write_page(page, entries, paired_tests({entry.name: entry.evaluation for entry in entries}))

    def data() -> dict[str, Any]:
        methods = {name: [stored.result().content for stored in runs] for name, runs in results.items()}
        evaluated = {name: [each.to_dict() for each in runs] for name, runs in evaluations.items()}
        return {"methods": methods, "evaluations": evaluated, "figures": figures, "report": str(page)}

    answer(options.json, data, lambda: Group(demo_table(evaluations), READING))
    if not options.json:
        console().print("Figures: " + one_line(", ".join(figures)), soft_wrap=True)
        console().print(f"Report of the first seed of each method: {one_line(str(page))}", soft_wrap=True)
